from graftax.tools.cli import main

if __name__ == "__main__":
  main()

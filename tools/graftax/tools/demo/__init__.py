"""What graftax does, on a model in front of you: `python -m graftax.tools.demo`.

- `steps`: inspects, converts, runs, fine-tunes, differentiates and saves the model.
- `view`: prints the results.
- `picture`: draws what is printed.
"""

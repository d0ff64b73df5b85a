"""Settings of Sphinx for `make docs`. The pages are those that stage_pages.py puts into build/docs/source."""

project = "graftax"
copyright = "2026, the authors of graftax"
extensions = ["myst_nb", "sphinx_copybutton"]
myst_enable_extensions = ["attrs_inline", "html_image", "colon_fence"]
myst_heading_anchors = 4
# Notebooks and examples run as tests, and their outputs are checked in.
nb_execution_mode = "off"
highlight_language = "none"
# Annotations name classes without their modules; two packages have a `Limits`.
suppress_warnings = ["ref.python"]
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
toc_object_entries_show_parents = "hide"
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "sphinx_book_theme"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["filter_tables.js"]
html_title = "graftax"
html_theme_options = {
  "repository_url": "https://github.com/graftax/graftax",
  "use_repository_button": True,
  "show_toc_level": 2,
  "home_page_in_toc": False,
  "navbar_persistent": [],  # the search is in the side bar
}
# The theme's icons are part of it; nothing is loaded from another server.
html_copy_source = False
html_show_sourcelink = False

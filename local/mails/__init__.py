"""Tools for whoever writes templates; nothing here runs where mail is sent.

inlining   X.source.html.j2 and its styles to X.html.j2, with the styles in the elements
checking   what would fail at its recipient, told now with file and line
preview    every mail as HTML, text and pictures
mustache   templates with mustache's placeholders to folders of ours
__main__   `make templates`, `make check-templates`, `make preview`
"""

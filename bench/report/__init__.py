"""What becomes of the findings: results.json, and the page.

targets  what each ratio shall be
results  the findings as JSON
chart    bars as an SVG
page     docs/performance.md
machine  what it was measured on
"""

"""What becomes of the findings: results.json, and the page.

targets  what each ratio shall be
results  the findings as JSON
chart    bars as an SVG
page     docs/performance.md
table    a table as Markdown
prices   what AWS asks
costs    arithmetic of prices and of what was measured
readme   the figures that the README shows
outlook  what the figures come to elsewhere
machine  what it was measured on
"""

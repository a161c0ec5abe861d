"""Workers that are measured in processes of their own; they speak as `measuring.children` hears.

arranging  the environment of a function, without AWS
standing   what stands in for rendering and for the provider where a case leaves them out
deliver    the product's delivery
"""

"""Workers that are measured in processes of their own; they speak as `measuring.children` hears.

arranging  the environment of a function, without AWS
standing   what stands in for rendering and for the provider where a case leaves them out
deliver    the product's delivery
bare       rendering alone, and a plain boto3 loop
ses_double SES over HTTP
signups    sign-ups in process, and their statements again
callers    callers of the sign-up route, by the clock or in turn
retiring   retention
"""

"""The command `deixis`: one module per verb.

Verbs parse options, call the packages below and print text or JSON. They import what they need when they run, so that
``--help`` is fast. No other package imports this one.
"""

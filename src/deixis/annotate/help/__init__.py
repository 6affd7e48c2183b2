"""Help from models, off unless a project's owner asks for it: which mentions name the same, and where it is.

A photo's captions and mentions come in; proposals go out, as events that say which model made them. What people then
accept or correct is theirs, and `deixis.annotate.exporting` tells the two apart. Imports the rest of `annotate` but
what the fold needs of it (`proposals`), which imports nothing of `annotate` but events and mentions.
"""

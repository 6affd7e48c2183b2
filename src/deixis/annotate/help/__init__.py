"""Help from models, off unless a project's owner asks for it: which mentions name the same, and where it is.

A photo's captions and mentions come in; proposals go out, as events that say which model made them. What people accept
or correct is theirs, and the export tells the two apart. `proposals` is what the fold over events asks, so it imports
only events and mentions; the others may import all of `annotate` and, for boxes, the grounder of `tasks`.
"""

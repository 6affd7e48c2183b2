"""Pictures of photos with boxes and of sentences with phrases in the colours of their boxes."""

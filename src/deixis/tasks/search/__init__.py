"""Photos of a person, found by sentences, words and other photos, each hit with how likely it is."""

"""`ottla assign`: what each assignor gives the members of a group, and what moves between two states."""

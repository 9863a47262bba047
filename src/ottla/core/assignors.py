"""`ottla.groups.assignors` by its former name."""

from ottla.groups.assignors import Assignor as Assignor

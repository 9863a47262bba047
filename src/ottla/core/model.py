"""`ottla.protocol.model` and `ottla.groups.events` by their former name."""

from ottla.groups.events import GroupEvent as GroupEvent
from ottla.protocol.model import Record as Record
from ottla.protocol.model import TopicPartition as TopicPartition

"""`ottla.history.advice` by its former name."""

from ottla.history.advice import ConsumerSettings as ConsumerSettings
from ottla.history.advice import advise as advise

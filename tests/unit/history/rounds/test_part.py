from ottla.history.rounds.splitting import SOURCE_RANK, Part, Stage
from ottla.history.sources.model import Kind, Source
from tests.support.kit.evidence import EvidenceLog


def test_the_generation_is_the_one_formed_or_the_one_to_be() -> None:
    log = EvidenceLog()
    log.join("a", 4)
    part = Part(clock="c", source=Source.BROKER_LOG, old_generation=4, items=log.lines)
    assert part.generation == 5
    assert part.ended_ms is None
    part.generations.append(6)
    part.stage = Stage.ENDED
    assert (part.generation, part.started_ms, part.ended_ms) == (6, log.now_ms, log.now_ms)
    assert len(part.of_kind(Kind.TRIGGER)) == 1
    assert Part(clock="c", source=Source.ADMIN).generation is None


def test_group_events_are_the_most_informative_source() -> None:
    assert min(SOURCE_RANK, key=SOURCE_RANK.__getitem__) is Source.GROUP_EVENTS

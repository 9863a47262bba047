"""The transaction index: Kafka's bytes, and what is not believed."""

from ottla.storage.log.transaction_index import AbortedTransaction, decode_transactions, encode_transactions

ONE = AbortedTransaction(producer_id=7, first_offset=10, last_offset=15, last_stable_offset=16)
TWO = AbortedTransaction(producer_id=8, first_offset=3, last_offset=20, last_stable_offset=12)


def test_entries_have_34_bytes_as_in_kafka() -> None:
    data = encode_transactions([ONE])
    assert data.hex() == "0000" + "0000000000000007" + "000000000000000a" + "000000000000000f" + "0000000000000010"
    assert decode_transactions(encode_transactions([ONE, TWO])) == [ONE, TWO]
    assert decode_transactions(b"") == []


def test_damage_is_not_believed() -> None:
    data = encode_transactions([ONE, TWO])
    assert decode_transactions(data[:-1]) is None
    assert decode_transactions(encode_transactions([TWO, ONE])) is None, "markers come in order"
    assert decode_transactions(b"\0\1" + data[2:34]) is None, "an unknown version"
    assert decode_transactions(encode_transactions([ONE._replace(first_offset=16)])) is None, "an end before its beginning"

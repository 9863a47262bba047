"""The record of the transaction coordinator's topic (`__transaction_state`) as a table of fields, for dumps (KIP-98, KIP-890, KIP-939).

It does not interpret the records.
"""

from typing import Final

from ottla.core.records.schema import Field, Kind, RecordType, Schema

TRANSACTION_LOG_TYPES: Final[dict[int, RecordType]] = {
    0: RecordType(
        "TransactionLog",
        Schema((Field("transactionalId", Kind.STRING),)),
        Schema(
            (
                Field("producerId", Kind.INT64),
                Field("previousProducerId", Kind.INT64, since=1, tag=0, default=-1),
                Field("nextProducerId", Kind.INT64, since=1, tag=1, default=-1),
                Field("producerEpoch", Kind.INT16),
                Field("nextProducerEpoch", Kind.INT16, since=1, tag=3, default=-1),
                Field("transactionTimeoutMs", Kind.INT32),
                Field("transactionStatus", Kind.INT8),
                Field(
                    "transactionPartitions",
                    (Field("topic", Kind.STRING), Field("partitionIds", Kind.INT32, is_array=True)),
                    is_array=True,
                    is_nullable=True,
                ),
                Field("transactionLastUpdateTimestampMs", Kind.INT64),
                Field("transactionStartTimestampMs", Kind.INT64),
                Field("clientTransactionVersion", Kind.INT16, since=1, tag=2, default=0),
            ),
            version_max=1,
            flexible_since=1,
        ),
    ),
}

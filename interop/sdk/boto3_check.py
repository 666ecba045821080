"""Every call that a consumer makes, by boto3, on our emulators: boto3_check.py KINESIS_URL DYNAMODB_URL.

Each check says what the service's API reference promises; the last line counts them, and the exit status is 1 if one failed.
"""
import datetime
import sys
import time
import traceback

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

KINESIS, DYNAMO = sys.argv[1:3]
quick = Config(region_name="us-east-1", retries={"max_attempts": 1}, read_timeout=10)
k = boto3.client("kinesis", endpoint_url=KINESIS, config=quick)
d = boto3.client("dynamodb", endpoint_url=DYNAMO, config=quick)
STREAM, TABLE = "boto3-stream", "boto3-leases"
checks = []


def check(f):
    checks.append(f)
    return f


def refused(code, f, **args):
    try:
        f(**args)
    except ClientError as e:
        got = e.response["Error"]["Code"]
        assert got == code, f"refused with {got}, want {code}: {e}"
        return e.response
    raise AssertionError(f"accepted, want {code}")


def active():
    for _ in range(200):
        s = k.describe_stream_summary(StreamName=STREAM)["StreamDescriptionSummary"]
        if s["StreamStatus"] == "ACTIVE":
            return s
        time.sleep(0.05)
    raise AssertionError("never ACTIVE")


def shards(**args):
    found, token = [], None
    while True:
        o = k.list_shards(NextToken=token) if token else k.list_shards(StreamName=STREAM, **args)
        found += o["Shards"]
        token = o.get("NextToken")
        if not token:
            return found


def read(shard, limit=10000, **at):
    """All records of a shard from there on, and the children named by its last page; a live shard is read until it is caught up."""
    it = k.get_shard_iterator(StreamName=STREAM, ShardId=shard, **at)["ShardIterator"]
    records = []
    while it:
        o = k.get_records(ShardIterator=it, Limit=limit)
        records += o["Records"]
        it = o.get("NextShardIterator")
        if it and not o["Records"] and o["MillisBehindLatest"] == 0:
            return records, None
        time.sleep(0.21)  # five reads a second and shard are allowed
    return records, o.get("ChildShards", [])


@check
def unknown_stream():
    refused("ResourceNotFoundException", k.describe_stream_summary, StreamName="nobody")
    refused("ResourceNotFoundException", k.list_shards, StreamName="nobody")


@check
def stream_is_made():
    k.create_stream(StreamName=STREAM, ShardCount=3)
    s = active()
    assert s["OpenShardCount"] == 3, s
    assert s["StreamARN"].endswith(":stream/" + STREAM), s
    assert abs(s["StreamCreationTimestamp"].timestamp() - time.time()) < 60, s
    refused("ResourceInUseException", k.create_stream, StreamName=STREAM, ShardCount=3)
    by_arn = k.describe_stream_summary(StreamARN=s["StreamARN"])["StreamDescriptionSummary"]
    assert by_arn == s, (by_arn, s)


@check
def listing_has_pages():
    whole = shards()
    assert [s["ShardId"] for s in whole] == [f"shardId-{i:012d}" for i in range(3)], whole
    assert whole[0]["HashKeyRange"]["StartingHashKey"] == "0" and whole[2]["HashKeyRange"]["EndingHashKey"] == str(2**128 - 1), whole
    assert shards(MaxResults=1) == whole, "pages of one are not the whole"
    first = k.list_shards(StreamName=STREAM, MaxResults=1)
    refused("InvalidArgumentException", k.list_shards, StreamName=STREAM, NextToken=first["NextToken"])
    assert shards(ExclusiveStartShardId="shardId-000000000000") == whole[1:]


@check
def records_come_back():
    entries = [{"Data": f"r{i}".encode(), "PartitionKey": f"k{i % 20}"} for i in range(300)]
    o = k.put_records(StreamName=STREAM, Records=entries)
    assert o["FailedRecordCount"] == 0 and len(o["Records"]) == 300, o["FailedRecordCount"]
    where = {f"r{i}": (r["ShardId"], r["SequenceNumber"]) for i, r in enumerate(o["Records"])}
    came = {}
    for s in shards():
        last = 0
        records, children = read(s["ShardId"], limit=40, ShardIteratorType="TRIM_HORIZON")
        assert children is None
        for r in records:
            assert int(r["SequenceNumber"]) > last, "sequence numbers must grow"
            last = int(r["SequenceNumber"])
            came[r["Data"].decode()] = (s["ShardId"], r["SequenceNumber"])
            assert r["PartitionKey"] == f"k{int(r['Data'][1:]) % 20}"
            assert abs(r["ApproximateArrivalTimestamp"].timestamp() - time.time()) < 60
    assert came == where, f"{len(came)} came, {len(where)} were put"


@check
def iterators_begin_where_told():
    shard = "shardId-000000000001"
    records, _ = read(shard, ShardIteratorType="TRIM_HORIZON")
    third = records[2]["SequenceNumber"]
    at, _ = read(shard, ShardIteratorType="AT_SEQUENCE_NUMBER", StartingSequenceNumber=third)
    after, _ = read(shard, ShardIteratorType="AFTER_SEQUENCE_NUMBER", StartingSequenceNumber=third)
    assert at == records[2:] and after == records[3:], (len(at), len(after), len(records))
    latest = k.get_shard_iterator(StreamName=STREAM, ShardId=shard, ShardIteratorType="LATEST")["ShardIterator"]
    time.sleep(0.02)
    now = datetime.datetime.now(datetime.timezone.utc)
    time.sleep(0.02)
    key = records[0]["PartitionKey"]
    put = k.put_record(StreamName=STREAM, Data=b"late", PartitionKey=key)
    got = k.get_records(ShardIterator=latest)["Records"]
    assert [r["SequenceNumber"] for r in got] == [put["SequenceNumber"]], got
    time.sleep(0.21)
    since, _ = read(shard, ShardIteratorType="AT_TIMESTAMP", Timestamp=now)
    assert [r["Data"] for r in since] == [b"late"], since
    refused("InvalidArgumentException", k.get_shard_iterator, StreamName=STREAM, ShardId=shard, ShardIteratorType="AT_SEQUENCE_NUMBER", StartingSequenceNumber="1")
    refused("ResourceNotFoundException", k.get_shard_iterator, StreamName=STREAM, ShardId="shardId-000000000099", ShardIteratorType="LATEST")


@check
def a_split_shard_names_its_children():
    before = time.time()
    k.split_shard(StreamName=STREAM, ShardToSplit="shardId-000000000000", NewStartingHashKey=str(2**126))
    active()
    family = {s["ShardId"]: s for s in shards()}
    assert len(family) == 5, list(family)
    assert "EndingSequenceNumber" in family["shardId-000000000000"]["SequenceNumberRange"]
    for child in ("shardId-000000000003", "shardId-000000000004"):
        assert family[child]["ParentShardId"] == "shardId-000000000000" and "EndingSequenceNumber" not in family[child]["SequenceNumberRange"]
    records, children = read("shardId-000000000000", ShardIteratorType="TRIM_HORIZON")
    assert records and sorted(c["ShardId"] for c in children) == ["shardId-000000000003", "shardId-000000000004"], children
    assert all(c["ParentShards"] == ["shardId-000000000000"] for c in children), children
    ids = lambda **f: [s["ShardId"][-1] for s in shards(ShardFilter=f)]
    assert ids(Type="AT_LATEST") == ["1", "2", "3", "4"], ids(Type="AT_LATEST")
    assert ids(Type="AT_TRIM_HORIZON") == ["0", "1", "2"], ids(Type="AT_TRIM_HORIZON")
    assert ids(Type="FROM_TRIM_HORIZON") == ["0", "1", "2", "3", "4"]
    assert ids(Type="AFTER_SHARD_ID", ShardId="shardId-000000000002") == ["3", "4"]
    assert ids(Type="AT_TIMESTAMP", Timestamp=datetime.datetime.fromtimestamp(before - 0.05, datetime.timezone.utc)) == ["0", "1", "2"]


@check
def a_merged_shard_has_two_parents():
    k.merge_shards(StreamName=STREAM, ShardToMerge="shardId-000000000001", AdjacentShardToMerge="shardId-000000000002")
    active()
    merged = [s for s in shards() if s["ShardId"] == "shardId-000000000005"][0]
    assert (merged["ParentShardId"], merged["AdjacentParentShardId"]) == ("shardId-000000000001", "shardId-000000000002"), merged
    for parent in ("shardId-000000000001", "shardId-000000000002"):
        _, children = read(parent, ShardIteratorType="TRIM_HORIZON")
        assert [(c["ShardId"], sorted(c["ParentShards"])) for c in children] == [("shardId-000000000005", ["shardId-000000000001", "shardId-000000000002"])], children


@check
def records_are_pushed():
    arn = active()["StreamARN"]
    made = k.register_stream_consumer(StreamARN=arn, ConsumerName="boto3")["Consumer"]
    assert made["ConsumerStatus"] == "CREATING" and made["ConsumerARN"].startswith(arn + "/consumer/boto3:"), made
    refused("ResourceInUseException", k.register_stream_consumer, StreamARN=arn, ConsumerName="boto3")
    seen = k.describe_stream_consumer(ConsumerARN=made["ConsumerARN"])["ConsumerDescription"]
    assert (seen["ConsumerStatus"], seen["StreamARN"]) == ("ACTIVE", arn), seen
    assert [c["ConsumerName"] for c in k.list_stream_consumers(StreamARN=arn)["Consumers"]] == ["boto3"]
    polled, _ = read("shardId-000000000001", ShardIteratorType="TRIM_HORIZON")
    at = {"ConsumerARN": made["ConsumerARN"], "ShardId": "shardId-000000000001"}
    pushed, children = [], None
    for event in k.subscribe_to_shard(StartingPosition={"Type": "TRIM_HORIZON"}, **at)["EventStream"]:
        e = event["SubscribeToShardEvent"]
        pushed += e["Records"]
        children = e.get("ChildShards")
        assert ("ContinuationSequenceNumber" in e) == (not children), e
    assert pushed == polled and [c["ShardId"] for c in children] == ["shardId-000000000005"], (len(pushed), len(polled), children)
    refused("ResourceInUseException", k.subscribe_to_shard, StartingPosition={"Type": "TRIM_HORIZON"}, **at)
    third = polled[2]["SequenceNumber"]
    at["ShardId"] = "shardId-000000000005"
    refused("InvalidArgumentException", k.subscribe_to_shard, StartingPosition={"Type": "AFTER_SEQUENCE_NUMBER", "SequenceNumber": third}, **at)
    stream = k.subscribe_to_shard(StartingPosition={"Type": "LATEST"}, **at)["EventStream"]
    put = k.put_record(StreamName=STREAM, Data=b"pushed", PartitionKey=polled[0]["PartitionKey"])
    first = next(iter(stream))["SubscribeToShardEvent"]
    assert [r["SequenceNumber"] for r in first["Records"]] == [put["SequenceNumber"]] and first["MillisBehindLatest"] == 0, first
    stream.close()
    refused("ResourceInUseException", k.delete_stream, StreamName=STREAM)
    k.deregister_stream_consumer(ConsumerARN=made["ConsumerARN"])
    refused("ResourceNotFoundException", k.describe_stream_consumer, ConsumerARN=made["ConsumerARN"])


@check
def stream_is_made_anew():
    first = active()["StreamCreationTimestamp"]
    k.delete_stream(StreamName=STREAM)
    for _ in range(200):
        try:
            k.describe_stream_summary(StreamName=STREAM)
        except k.exceptions.ResourceNotFoundException:
            break
        time.sleep(0.05)
    time.sleep(1.1)
    k.create_stream(StreamName=STREAM, ShardCount=1)
    second = active()["StreamCreationTimestamp"]
    assert second > first, (first, second)


@check
def table_is_made():
    refused("ResourceNotFoundException", d.describe_table, TableName=TABLE)
    d.create_table(TableName=TABLE, BillingMode="PAY_PER_REQUEST", KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}],
                   AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}])
    d.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1, "MaxAttempts": 20})
    refused("ResourceInUseException", d.create_table, TableName=TABLE, BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "leaseKey", "KeyType": "HASH"}], AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}])


def row(n, owner="w1"):
    return {"leaseKey": {"S": f"shardId-{n:012d}"}, "leaseOwner": {"S": owner}, "leaseCounter": {"N": "0"}, "checkpoint": {"S": "TRIM_HORIZON"},
            "parentShardId": {"SS": ["a", "b"]}}


@check
def a_lease_is_created_once():
    d.put_item(TableName=TABLE, Item=row(0), ConditionExpression="attribute_not_exists(leaseKey)")
    r = refused("ConditionalCheckFailedException", d.put_item, TableName=TABLE, Item=row(0, "w2"),
                ConditionExpression="attribute_not_exists(leaseKey)", ReturnValuesOnConditionCheckFailure="ALL_OLD")
    assert r["Item"]["leaseOwner"] == {"S": "w1"}, r.get("Item")
    got = d.get_item(TableName=TABLE, Key={"leaseKey": row(0)["leaseKey"]}, ConsistentRead=True)["Item"]
    got["parentShardId"]["SS"].sort()
    assert got == row(0), got


@check
def a_lease_is_renewed_by_its_holder_alone():
    args = dict(TableName=TABLE, Key={"leaseKey": row(0)["leaseKey"]}, UpdateExpression="SET leaseCounter = leaseCounter + :one, #c = :c REMOVE childShardIds ADD kids :k",
                ConditionExpression="leaseCounter = :seen AND leaseOwner = :me", ExpressionAttributeNames={"#c": "checkpoint"},
                ExpressionAttributeValues={":one": {"N": "1"}, ":seen": {"N": "0"}, ":me": {"S": "w1"}, ":c": {"S": "42"}, ":k": {"SS": ["x"]}}, ReturnValues="ALL_NEW")
    new = d.update_item(**args)["Attributes"]
    assert (new["leaseCounter"], new["checkpoint"], new["kids"]) == ({"N": "1"}, {"S": "42"}, {"SS": ["x"]}), new
    refused("ConditionalCheckFailedException", d.update_item, **args)
    legacy = d.update_item(TableName=TABLE, Key={"leaseKey": row(0)["leaseKey"]}, Expected={"leaseCounter": {"Value": {"N": "1"}, "ComparisonOperator": "EQ"}},
                           AttributeUpdates={"leaseCounter": {"Value": {"N": "1"}, "Action": "ADD"}, "leaseOwner": {"Action": "DELETE"}}, ReturnValues="ALL_NEW")["Attributes"]
    assert legacy["leaseCounter"] == {"N": "2"} and "leaseOwner" not in legacy, legacy
    refused("ValidationException", d.update_item, TableName=TABLE, Key={"leaseKey": {"S": "x"}}, UpdateExpression="SET a = :nobody")


@check
def a_table_is_scanned_in_pages():
    for n in range(1, 30):
        d.put_item(TableName=TABLE, Item=row(n))
    for pages in ({"PageSize": 7}, {"PageSize": 100}):
        found = [i["leaseKey"]["S"] for p in d.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True, PaginationConfig=pages) for i in p["Items"]]
        assert sorted(found) == [f"shardId-{n:012d}" for n in range(30)], (pages, found)
    parts = [i["leaseKey"]["S"] for s in range(3) for i in d.scan(TableName=TABLE, Segment=s, TotalSegments=3)["Items"]]
    assert sorted(parts) == sorted(found), "segments must cover the table once"


@check
def leases_are_found_by_owner():
    d.update_table(TableName=TABLE, AttributeDefinitions=[{"AttributeName": "leaseKey", "AttributeType": "S"}, {"AttributeName": "leaseOwner", "AttributeType": "S"}],
                   GlobalSecondaryIndexUpdates=[{"Create": {"IndexName": "LeaseOwnerToLeaseKeyIndex", "Projection": {"ProjectionType": "KEYS_ONLY"},
                       "KeySchema": [{"AttributeName": "leaseOwner", "KeyType": "HASH"}, {"AttributeName": "leaseKey", "KeyType": "RANGE"}]}}])
    for _ in range(200):
        i = d.describe_table(TableName=TABLE)["Table"]["GlobalSecondaryIndexes"][0]
        if i["IndexStatus"] == "ACTIVE":
            break
        time.sleep(0.05)
    d.put_item(TableName=TABLE, Item=row(5, "w5"))
    for _ in range(100):  # an index is eventually consistent
        o = d.query(TableName=TABLE, IndexName=i["IndexName"], KeyConditionExpression="leaseOwner = :o", ExpressionAttributeValues={":o": {"S": "w5"}})
        if o["Items"]:
            break
        time.sleep(0.05)
    assert o["Items"] == [{"leaseOwner": {"S": "w5"}, "leaseKey": row(5)["leaseKey"]}], o["Items"]


@check
def a_lease_is_deleted_as_seen():
    refused("ConditionalCheckFailedException", d.delete_item, TableName=TABLE, Key={"leaseKey": row(5)["leaseKey"]},
            ConditionExpression="leaseOwner = :o", ExpressionAttributeValues={":o": {"S": "w1"}})
    d.delete_item(TableName=TABLE, Key={"leaseKey": row(5)["leaseKey"]}, ConditionExpression="leaseOwner = :o", ExpressionAttributeValues={":o": {"S": "w5"}})
    assert "Item" not in d.get_item(TableName=TABLE, Key={"leaseKey": row(5)["leaseKey"]}, ConsistentRead=True)
    d.delete_table(TableName=TABLE)


failed = 0
for c in checks:
    try:
        c()
        print("ok  ", c.__name__)
    except Exception:
        failed += 1
        print("FAIL", c.__name__)
        traceback.print_exc(file=sys.stdout)
print(f"boto3 {boto3.__version__}: {len(checks) - failed} checks passed, {failed} failed")
sys.exit(1 if failed else 0)

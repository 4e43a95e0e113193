"""Asks a model, whole and streamed, enqueues a webhook, and sends a notification.

PYTHONPATH=gen python3 main.py
"""

import os
import sys
import time
import uuid

import grpc
from switchyard.gateway.v1 import chat_pb2, inference_pb2_grpc
from switchyard.notify.v1 import notify_pb2, notify_pb2_grpc
from switchyard.webhooks.v1 import deliveries_pb2, deliveries_pb2_grpc

from client import connect, metadata
from failure import failure_of


def chat(channel: grpc.Channel) -> None:
    """Asks whole and streamed. Text and parts are set in types; no field of an answer is JSON."""
    inference = inference_pb2_grpc.InferenceServiceStub(channel)
    parts = [chat_pb2.ContentPart(text="What does"), chat_pb2.ContentPart(text=" a switchyard do?")]
    question = chat_pb2.LlmRequest(
        optimization_goal="cost",
        messages=[
            chat_pb2.ChatMessage(role="system", text="Answer in one sentence."),
            chat_pb2.ChatMessage(role="user", parts=chat_pb2.ContentParts(parts=parts)),
        ],
    )
    answer = inference.Chat(question, metadata=metadata(), timeout=120)
    print(answer.content)
    print(f"{answer.usage.provider_used} answered for {answer.usage.cost_cents:.6f} cents")
    for chunk in inference.ChatStream(question, metadata=metadata(), timeout=120):
        print(chunk.content, end="")
    print()


def enqueue(channel: grpc.Channel) -> None:
    """Enqueues a webhook twice under one key, as after a broken connection, and follows it."""
    deliveries = deliveries_pb2_grpc.DeliveryServiceStub(channel)
    request = deliveries_pb2.EnqueueRequest(
        url=os.environ["WEBHOOK_TARGET"],
        event_type="train.arrived",
        payload=b'{"track":7}',  # Free JSON: its bytes are what the receiver gets.
        idempotency_key=f"train-{uuid.uuid4()}",
    )
    first = deliveries.Enqueue(request, metadata=metadata(), timeout=15)
    again = deliveries.Enqueue(request, metadata=metadata(), timeout=15)
    assert again.deduplicated and again.delivery_id == first.delivery_id
    wanted = deliveries_pb2.GetDeliveryRequest(id=first.delivery_id)
    for _ in range(100):
        record = deliveries.GetDelivery(wanted, metadata=metadata(), timeout=15)
        if record.status not in ("queued", "delivering", "retrying"):
            break
        time.sleep(0.1)
    print(f"{record.status} after {record.attempts} attempt(s), status {record.last_response_code.value}")


def send(channel: grpc.Channel) -> None:
    """Sends a notification."""
    accepted = notify_pb2_grpc.NotifyServiceStub(channel).Notify(
        notify_pb2.NotifyRequest(
            channels=["in_app"],
            subject="Train 7",
            message="arrives on track 3",
            target=notify_pb2.NotifyTarget(user_id="user_python"),
            idempotency_key=f"notice-{uuid.uuid4()}",
        ),
        metadata=metadata(),
        timeout=10,
    )
    print(f"sent by {', '.join(accepted.accepted_channels)}")


def refused(channel: grpc.Channel) -> None:
    """Shows what a refusal says: code, reason, and whether to try again."""
    both = chat_pb2.ChatMessage(role="user", content=b'"a"', text="b")
    try:
        inference_pb2_grpc.InferenceServiceStub(channel).Chat(
            chat_pb2.LlmRequest(messages=[both]), metadata=metadata(), timeout=120
        )
    except grpc.RpcError as error:
        failure = failure_of(error)
        print(f"{failure.code.name} {failure.reason}, retryable: {failure.retryable}: {failure.text}")


def main() -> None:
    """Runs all jobs."""
    with connect("GATEWAY_GRPC") as gateway, connect("WEBHOOK_EGRESS_GRPC") as egress, connect("NOTIFY_GRPC") as notify:
        try:
            chat(gateway)
            enqueue(egress)
            send(notify)
            refused(gateway)
        except grpc.RpcError as error:
            sys.exit(f"failed: {failure_of(error)}")


main()

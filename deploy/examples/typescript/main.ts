// Asks a model, whole and streamed, enqueues a webhook, and sends a notification.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { ServiceError } from "@grpc/grpc-js";
import { connect, identity, unary, within } from "./client.js";
import { failureOf } from "./failure.js";
import { LlmRequest, type LlmChunk, type LlmResponse } from "./gen/switchyard/gateway/v1/chat.js";
import { InferenceServiceClient } from "./gen/switchyard/gateway/v1/inference.js";
import { NotifyRequest, NotifyServiceClient, NotifyTarget, type NotifyAccepted } from "./gen/switchyard/notify/v1/notify.js";
import {
  DeliveryServiceClient,
  EnqueueRequest,
  GetDeliveryRequest,
  type DeliveryRecord,
  type EnqueueAccepted,
} from "./gen/switchyard/webhooks/v1/deliveries.js";

const gateway = new InferenceServiceClient(...connect("GATEWAY_GRPC"));
const egress = new DeliveryServiceClient(...connect("WEBHOOK_EGRESS_GRPC"));
const notify = new NotifyServiceClient(...connect("NOTIFY_GRPC"));

// chat asks whole and streamed. Text and parts are set in types; no field of an answer is JSON.
async function chat(): Promise<void> {
  const question = LlmRequest.fromPartial({
    optimization_goal: "cost",
    messages: [
      { role: "system", typed_content: { $case: "text", value: "Answer in one sentence." } },
      {
        role: "user",
        typed_content: {
          $case: "parts",
          value: {
            parts: [
              { part: { $case: "text", value: "What does" } },
              { part: { $case: "text", value: " a switchyard do?" } },
            ],
          },
        },
      },
    ],
  });
  const answer = await unary<LlmResponse>((done) => gateway.chat(question, identity(), within(120), done));
  console.log(answer.content);
  console.log(`${answer.usage?.provider_used} answered for ${answer.usage?.cost_cents.toFixed(6)} cents`);
  let streamed = "";
  for await (const chunk of gateway.chatStream(question, identity(), within(120))) {
    streamed += (chunk as LlmChunk).content ?? "";
  }
  console.log(streamed);
}

// enqueue enqueues a webhook twice under one key, as after a broken connection, and follows it.
async function enqueue(): Promise<void> {
  const request = EnqueueRequest.fromPartial({
    url: process.env.WEBHOOK_TARGET,
    event_type: "train.arrived",
    payload: Buffer.from(JSON.stringify({ track: 7 })), // Free JSON: its bytes are what the receiver gets.
    idempotency_key: `train-${randomUUID()}`,
  });
  const first = await unary<EnqueueAccepted>((done) => egress.enqueue(request, identity(), within(15), done));
  const again = await unary<EnqueueAccepted>((done) => egress.enqueue(request, identity(), within(15), done));
  if (!again.deduplicated || again.delivery_id !== first.delivery_id) throw new Error("the key was not known again");
  const wanted = GetDeliveryRequest.fromPartial({ id: first.delivery_id });
  for (let i = 0; i < 100; i++) {
    const record = await unary<DeliveryRecord>((done) =>
      egress.getDelivery(wanted, identity(), within(15), done),
    );
    if (!["queued", "delivering", "retrying"].includes(record.status)) {
      console.log(`${record.status} after ${record.attempts} attempt(s), status ${record.last_response_code}`);
      return;
    }
    await sleep(100);
  }
  throw new Error("the delivery has not ended");
}

// send sends a notification.
async function send(): Promise<void> {
  const request = NotifyRequest.fromPartial({
    channels: ["in_app"],
    subject: "Train 7",
    message: "arrives on track 3",
    target: NotifyTarget.fromPartial({ user_id: "user_typescript" }),
    idempotency_key: `notice-${randomUUID()}`,
  });
  const accepted = await unary<NotifyAccepted>((done) => notify.notify(request, identity(), within(10), done));
  console.log(`sent by ${accepted.accepted_channels.join(", ")}`);
}

// refused shows what a refusal says: code, reason, and whether to try again.
async function refused(): Promise<void> {
  const both = { role: "user", content: Buffer.from('"a"'), typed_content: { $case: "text" as const, value: "b" } };
  try {
    await unary<LlmResponse>((done) => gateway.chat(LlmRequest.fromPartial({ messages: [both] }), identity(), within(120), done));
  } catch (error) {
    const failure = failureOf(error as ServiceError);
    console.log(`${failure.code} ${failure.reason}, retryable: ${failure.retryable}: ${failure.text}`);
  }
}

try {
  await chat();
  await enqueue();
  await send();
  await refused();
} catch (error) {
  console.error("failed:", (error as ServiceError).metadata ? failureOf(error as ServiceError) : error);
  process.exitCode = 1;
} finally {
  for (const client of [gateway, egress, notify]) client.close();
}

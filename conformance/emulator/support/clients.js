// Calls to all three services through their JavaScript clients.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { TableServiceClient, TableClient } from "@azure/data-tables";
import { BlobServiceClient } from "@azure/storage-blob";
import { QueueServiceClient } from "@azure/storage-queue";

export const DEVELOPMENT_KEY =
  "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

const newName = () => `case${randomBytes(8).toString("hex")}`;

export async function useTables(connectionString) {
  const options = { allowInsecureConnection: true };
  const name = newName();
  await TableServiceClient.fromConnectionString(connectionString, options).createTable(name);
  const table = TableClient.fromConnectionString(connectionString, name, options);
  await table.createEntity({ partitionKey: "a", rowKey: "b", weight: 7 });
  assert.equal((await table.getEntity("a", "b")).weight, 7);
  await table.deleteTable();
}

// Lists the containers first, as Aspire's health check does.
export async function useBlobs(connectionString) {
  const blobs = BlobServiceClient.fromConnectionString(connectionString);
  await blobs.listContainers().byPage({ maxPageSize: 1 }).next();
  const container = blobs.getContainerClient(newName());
  await container.create();
  await container.getBlockBlobClient("a").upload("text", 4);
  assert.equal((await container.getBlobClient("a").downloadToBuffer()).toString(), "text");
  await container.delete();
}

export async function useQueues(connectionString) {
  const queue = QueueServiceClient.fromConnectionString(connectionString).getQueueClient(newName());
  await queue.create();
  await queue.sendMessage("text");
  const { receivedMessageItems } = await queue.receiveMessages();
  assert.deepEqual(
    receivedMessageItems.map((message) => message.messageText),
    ["text"],
  );
  await queue.delete();
}

export async function useAll(connectionString) {
  await useTables(connectionString);
  await useBlobs(connectionString);
  await useQueues(connectionString);
}

// A Nest application that stores its events in a table: the module @nestjs/azure-database. Nest relies on decorators,
// which JavaScript does not support yet, so the program calls them as functions.

import "reflect-metadata";
import azureDatabase from "@nestjs/azure-database";
import common from "@nestjs/common";
import core from "@nestjs/core";
import { listen } from "../support/listen.js";

const { AzureTableStorageModule, InjectRepository } = azureDatabase;
const { Body, Controller, Delete, Get, Module, Param, Post, Put } = common;

class Event {}

class EventController {
  constructor(events) {
    this.events = events;
  }

  list() {
    return this.events.findAll();
  }

  async read(type, id) {
    return { event: await this.events.find(type, id) };
  }

  async create(event) {
    return { event: await this.events.create(Object.assign(new Event(), event)) };
  }

  async update(type, id, event) {
    return { event: await this.events.update(type, id, Object.assign(new Event(), event)) };
  }

  async delete(type, id) {
    await this.events.delete(type, id);
  }
}
Controller("events")(EventController);
InjectRepository(Event)(EventController, undefined, 0);

// Assigns a method its route, and its parameters their sources.
function route(name, method, ...parameters) {
  const { prototype } = EventController;
  method(prototype, name, Object.getOwnPropertyDescriptor(prototype, name));
  parameters.forEach((parameter, index) => parameter(prototype, name, index));
}
route("list", Get());
route("read", Get(":type/:id"), Param("type"), Param("id"));
route("create", Post(), Body());
route("update", Put(":type/:id"), Param("type"), Param("id"), Body());
route("delete", Delete(":type/:id"), Param("type"), Param("id"));

class EventModule {}
Module({
  imports: [AzureTableStorageModule.forFeature(Event, { table: process.env.TABLE, createTableIfNotExists: true })],
  controllers: [EventController],
})(EventModule);

const application = await core.NestFactory.create(EventModule, { logger: ["error"] });
await application.init();
listen(application.getHttpServer());

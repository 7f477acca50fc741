// How tools start the emulator: the words of the command as they have them, and the lines that they wait for.
//
// `azurite` stands for a program of that name, and FOLDER for a folder of the machine or the container.

const SERVICES = ["Blob", "Queue", "Table"];
const LISTENING = SERVICES.map((service) => new RegExp(`.*${service} service is successfully listening.*`));
const EVERY_HOST = ["--blobHost", "0.0.0.0", "--queueHost", "0.0.0.0", "--tableHost", "0.0.0.0"];

export const TOOLS = [
  // org.testcontainers.azure.AzuriteContainer: the command of the image; it waits until the three ports are open.
  { tool: "Testcontainers for Java", command: ["azurite", ...EVERY_HOST], waits: [] },
  // Testcontainers.Azurite: the program as entry point, and the options.
  { tool: "Testcontainers for .NET", command: ["azurite", ...EVERY_HOST], waits: LISTENING },
  {
    tool: "Testcontainers for .NET, in memory",
    command: ["azurite", ...EVERY_HOST, "--inMemoryPersistence", "--extentMemoryLimit", "64"],
    waits: LISTENING,
  },
  // @testcontainers/azurite
  {
    tool: "Testcontainers for Node.js",
    command: ["azurite", ...EVERY_HOST, "--inMemoryPersistence", "--skipApiVersionCheck"],
    waits: LISTENING,
  },
  // Aspire.Hosting.Azure.Storage, RunAsEmulator: it asks for the containers of blobs until that works.
  { tool: "Aspire", command: ["azurite", "-l", "FOLDER", ...EVERY_HOST, "--skipApiVersionCheck"], waits: [] },
  // What the documentation of Azure Functions tells people to run, and what tasks of VS Code do.
  {
    tool: "Azure Functions and VS Code",
    command: ["azurite", "--silent", "--location", "FOLDER", "--debug", "FOLDER/debug.log"],
    waits: LISTENING,
  },
  // The command of the emulator's own image, for compose files and services of GitHub Actions.
  { tool: "the emulator's image", command: ["azurite", "-l", "FOLDER", ...EVERY_HOST], waits: LISTENING },
];

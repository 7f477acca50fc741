// How tools start the emulator: the exact arguments of their commands, and the lines for which they wait.
//
// `azurite` stands for a program with that name, and FOLDER for a folder on the machine or in the container.

const SERVICES = ["Blob", "Queue", "Table"];
const LISTENING = SERVICES.map((service) => new RegExp(`.*${service} service is successfully listening.*`));
const EVERY_HOST = ["--blobHost", "0.0.0.0", "--queueHost", "0.0.0.0", "--tableHost", "0.0.0.0"];

export const TOOLS = [
  // org.testcontainers.azure.AzuriteContainer: the command of the image; waits until the three ports are open.
  { tool: "Testcontainers for Java", command: ["azurite", ...EVERY_HOST], waits: [] },
  // Testcontainers.Azurite: the program as the entry point, and the options.
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
  // Aspire.Hosting.Azure.Storage, RunAsEmulator: requests the list of blob containers until the request succeeds.
  { tool: "Aspire", command: ["azurite", "-l", "FOLDER", ...EVERY_HOST, "--skipApiVersionCheck"], waits: [] },
  // The command in the Azure Functions documentation, also used by VS Code tasks.
  {
    tool: "Azure Functions and VS Code",
    command: ["azurite", "--silent", "--location", "FOLDER", "--debug", "FOLDER/debug.log"],
    waits: LISTENING,
  },
  // The command of the emulator's image, for compose files and service containers of GitHub Actions.
  { tool: "the emulator's image", command: ["azurite", "-l", "FOLDER", ...EVERY_HOST], waits: LISTENING },
];

using System.Diagnostics;

namespace Conformance.DurableTask;

/// <summary>
/// Blobs and queues from the emulator, which keeps them in memory. The environment variable AZURITE names the program.
/// </summary>
internal sealed class Azurite : IDisposable
{
    private readonly Process process;

    private Azurite(Process process, string blobs, string queues) =>
        (this.process, BlobEndpoint, QueueEndpoint) = (process, $"{blobs}/devstoreaccount1", $"{queues}/devstoreaccount1");

    public string BlobEndpoint { get; }

    public string QueueEndpoint { get; }

    public static async Task<Azurite> StartAsync()
    {
        var program = Environment.GetEnvironmentVariable("AZURITE")
            ?? throw new InvalidOperationException("set AZURITE to the program of the npm package azurite");
        string[] ports = ["--blobPort", "0", "--queuePort", "0", "--tablePort", "0"];
        string[] options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"];
        var command = new ProcessStartInfo(program, [.. ports, .. options]) { RedirectStandardOutput = true };
        var process = Process.Start(command)!;
        var blobs = await ReadAddressAsync(process, "Blob");
        var queues = await ReadAddressAsync(process, "Queue");
        // It also writes a line for each request. A full pipe would stop it.
        _ = process.StandardOutput.BaseStream.CopyToAsync(Stream.Null);
        return new(process, blobs, queues);
    }

    public void Dispose()
    {
        process.Kill();
        process.WaitForExit();
        process.Dispose();
    }

    private static async Task<string> ReadAddressAsync(Process process, string service)
    {
        while (await process.StandardOutput.ReadLineAsync() is { } line)
        {
            if (line.StartsWith($"Azurite {service} service is successfully listening at "))
            {
                return line[line.LastIndexOf("http://", StringComparison.Ordinal)..];
            }
        }
        throw new InvalidOperationException("the emulator did not start");
    }
}

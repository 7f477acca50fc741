using System.Net;
using System.Net.Sockets;
using Rowhouse.Testing;
using Xunit;

namespace Conformance.Support;

internal static class Servers
{
    /// <summary>Stops a server, which must exit with 0 and must not have logged an error.</summary>
    public static async Task StopAsync(RowhouseServer server)
    {
        await server.DisposeAsync();
        Assert.True(server.ExitCode == 0, server.Log);
        Assert.DoesNotContain("ERROR", server.Log);
        Assert.DoesNotContain("panicked", server.Log);
    }
}

/// <summary>
/// A port of 127.0.0.1 that no other test gets, even while no server listens on it. All tests of the repository reserve
/// ports in this way, as test-support/src/port.rs explains.
/// </summary>
internal sealed class ReservedPort : IDisposable
{
    private readonly UdpClient reservation;

    public ReservedPort() => reservation = Enumerable.Range(12_000, 8_000).Select(Reserve).First(it => it is not null)!;

    public int Number => ((IPEndPoint)reservation.Client.LocalEndPoint!).Port;

    public void Dispose() => reservation.Dispose();

    private static UdpClient? Reserve(int port)
    {
        UdpClient? reservation = null;
        try
        {
            reservation = new UdpClient(new IPEndPoint(IPAddress.Loopback, port));
            using var listener = new TcpListener(IPAddress.Loopback, port);
            listener.Start();
            return reservation;
        }
        catch (SocketException)
        {
            reservation?.Dispose();
            return null;
        }
    }
}

/// <summary>A folder that is deleted at the end of a test.</summary>
internal sealed class TemporaryFolder : IDisposable
{
    private readonly DirectoryInfo folder = Directory.CreateTempSubdirectory("rowhouse-");

    public string File(string name) => Path.Combine(folder.FullName, name);

    public void Dispose() => folder.Delete(recursive: true);
}

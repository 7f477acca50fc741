using System.Diagnostics;
using System.Net.Http.Headers;
using System.Text;
using System.Text.Json;

namespace Rowhouse.Testing;

/// <summary>An account on a server. Accounts do not share tables.</summary>
/// <param name="Name">The account name.</param>
/// <param name="Key">The account key in Base64.</param>
/// <param name="Endpoint">The URL of the account's tables.</param>
/// <param name="ConnectionString">Contains all of the above, for client libraries.</param>
public sealed record RowhouseAccount(string Name, string Key, Uri Endpoint, string ConnectionString)
{
    internal static RowhouseAccount Parse(string connectionString)
    {
        var parts = connectionString.Split(';', StringSplitOptions.RemoveEmptyEntries)
            .Select(part => part.Split('=', 2)).ToDictionary(part => part[0], part => part[1]);
        return new(parts["AccountName"], parts["AccountKey"], new Uri(parts["TableEndpoint"]), connectionString);
    }
}

/// <summary>
/// A server for tests on a free port of this machine. The program is the file that the environment variable
/// ROWHOUSE_BINARY names, or else <c>rowhouse</c> in PATH. It stops when its standard input is closed, so it never
/// outlives this process.
/// </summary>
public sealed class RowhouseServer : IAsyncDisposable
{
    private const int LogLinesMax = 1000;

    // Bypasses proxies, whatever the environment configures.
    private static readonly HttpClient Client = new(new HttpClientHandler { UseProxy = false });

    private readonly Process process;
    private readonly Queue<string> log = new();
    private readonly Task logReader;
    private readonly Uri? controls;

    private RowhouseServer(Process process, Task logReader, Queue<string> log, RowhouseAccount account, Uri? controls)
    {
        (this.process, this.logReader, this.log) = (process, logReader, log);
        (Account, this.controls) = (account, controls);
    }

    /// <summary>The first account, into which <c>--seed</c> loads tables.</summary>
    public RowhouseAccount Account { get; }

    /// <summary>The last part of the server's log.</summary>
    public string Log
    {
        get
        {
            lock (log)
            {
                return string.Join('\n', log);
            }
        }
    }

    /// <summary>The exit code, once the server has exited.</summary>
    public int? ExitCode => process.HasExited ? process.ExitCode : null;

    /// <summary>Starts a server that keeps everything in memory and has test controls.</summary>
    /// <param name="options">More options for <c>rowhouse serve</c>.</param>
    public static Task<RowhouseServer> StartAsync(params string[] options) =>
        StartAsync(["--in-memory", "--test-controls", .. options], "admin on ");

    /// <summary>Starts a server that keeps its data in a folder, where a later server finds it again.</summary>
    /// <param name="folder">The folder, which is created if it does not exist.</param>
    /// <param name="options">More options for <c>rowhouse serve</c>.</param>
    public static Task<RowhouseServer> StartWithDataAsync(string folder, params string[] options) =>
        StartAsync(["--data", folder, .. options], "connection string: ");

    /// <summary>Creates an empty account.</summary>
    public async Task<RowhouseAccount> NewAccountAsync()
    {
        var made = await ControlAsync(HttpMethod.Post, "/test/accounts");
        return RowhouseAccount.Parse(made.GetProperty("connectionString").GetString()!);
    }

    /// <summary>
    /// Sends a request to the test controls (docs/test-controls.md), such as PUT /test/clock, and returns the body of
    /// the response.
    /// </summary>
    public async Task<JsonElement> ControlAsync(HttpMethod method, string path, string body = "{}")
    {
        if (controls is null)
        {
            throw new InvalidOperationException("a server with a data folder has no test controls");
        }
        using var request = new HttpRequestMessage(method, new Uri(controls, path))
        {
            Content = new StringContent(body, new MediaTypeHeaderValue("application/json")),
        };
        using var response = await Client.SendAsync(request);
        var answer = await response.Content.ReadAsStringAsync();
        if (!response.IsSuccessStatusCode)
        {
            throw new InvalidOperationException($"{method} {path} was refused: {answer}");
        }
        return answer.Length == 0 ? default : JsonElement.Parse(answer);
    }

    /// <summary>Ends the server at once, as a crash does.</summary>
    public async Task KillAsync()
    {
        process.Kill();
        await process.WaitForExitAsync();
    }

    /// <summary>Stops the server and waits until it has exited.</summary>
    public async ValueTask DisposeAsync()
    {
        process.StandardInput.Close();
        await process.WaitForExitAsync();
        await logReader;
    }

    private static async Task<RowhouseServer> StartAsync(string[] options, string lastLine)
    {
        var process = new Process { StartInfo = Command(options) };
        process.Start();
        var log = new Queue<string>();
        var logReader = ReadLogAsync(process.StandardError, log);
        string? connectionString = null;
        while (await process.StandardOutput.ReadLineAsync() is { } line)
        {
            connectionString = After("connection string: ", line) ?? connectionString;
            if (After(lastLine, line) is { } last)
            {
                var controls = Uri.TryCreate(last, UriKind.Absolute, out var address) ? address : null;
                // A full pipe would stop the server.
                _ = process.StandardOutput.BaseStream.CopyToAsync(Stream.Null);
                return new(process, logReader, log, RowhouseAccount.Parse(connectionString!), controls);
            }
        }
        await process.WaitForExitAsync();
        await logReader;
        throw new InvalidOperationException(
            $"rowhouse did not start: exit code {process.ExitCode}\n{string.Join('\n', log)}");
    }

    private static ProcessStartInfo Command(string[] options)
    {
        var command = new ProcessStartInfo(FindProgram(), ["serve", "--stop-with-stdin", .. options])
        {
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
            StandardOutputEncoding = Encoding.UTF8,
            StandardErrorEncoding = Encoding.UTF8,
        };
        // Such variables may be set for a developer's other server.
        foreach (var name in command.Environment.Keys.Where(name => name.StartsWith("ROWHOUSE_")).ToList())
        {
            command.Environment.Remove(name);
        }
        // The port is set in a variable instead of an option, so that an option can override it.
        command.Environment["ROWHOUSE_LISTEN"] = "127.0.0.1:0";
        return command;
    }

    private static string FindProgram()
    {
        if (Environment.GetEnvironmentVariable("ROWHOUSE_BINARY") is { Length: > 0 } chosen)
        {
            return File.Exists(chosen)
                ? Path.GetFullPath(chosen)
                : throw new FileNotFoundException($"ROWHOUSE_BINARY names a file that does not exist: {chosen}");
        }
        var folders = (Environment.GetEnvironmentVariable("PATH") ?? "").Split(Path.PathSeparator);
        var candidates = folders.SelectMany(folder => new[] { "rowhouse", "rowhouse.exe" }, Path.Combine);
        return candidates.FirstOrDefault(File.Exists)
            ?? throw new FileNotFoundException("rowhouse is missing: install it, or set ROWHOUSE_BINARY to its path");
    }

    private static async Task ReadLogAsync(StreamReader lines, Queue<string> log)
    {
        while (await lines.ReadLineAsync() is { } line)
        {
            lock (log)
            {
                log.Enqueue(line);
                if (log.Count > LogLinesMax)
                {
                    log.Dequeue();
                }
            }
        }
    }

    private static string? After(string beginning, string line) =>
        line.StartsWith(beginning, StringComparison.Ordinal) ? line[beginning.Length..] : null;
}

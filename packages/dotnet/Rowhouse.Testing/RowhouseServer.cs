using System.ComponentModel;
using System.Diagnostics;
using System.Net;
using System.Net.Http.Headers;
using System.Text;
using System.Text.Json;

namespace Rowhouse.Testing;

/// <summary>
/// A server for tests on a free port of this machine. The program is the file that the environment variable
/// ROWHOUSE_BINARY names, or else the one in a package such as Rowhouse.Testing.linux-x64, or else <c>rowhouse</c> in
/// PATH. It stops when its standard input is closed, so it never outlives this process.
/// </summary>
public sealed class RowhouseServer : IAsyncDisposable
{
    private const int LogLinesMax = 1000;

    // Bypasses proxies, whatever the environment configures.
    private static readonly HttpClient Client = new(new HttpClientHandler { UseProxy = false });

    private static readonly Lazy<Task<RowhouseServer>> Shared = new(() => StartAsync());

    private readonly Process process;
    private readonly Queue<string> log;
    private readonly Task logReader;
    private readonly Uri? controls;

    private RowhouseServer(Process process, Queue<string> log, Task logReader, string connectionString, string lastValue)
    {
        this.process = process;
        this.log = log;
        this.logReader = logReader;
        Account = new(this, connectionString);
        Clock = new(this);
        // Without test controls, the last line is not an address.
        Uri.TryCreate(lastValue, UriKind.Absolute, out controls);
    }

    /// <summary>The first account, into which <c>--seed</c> loads tables. It cannot be deleted.</summary>
    public RowhouseAccount Account { get; }

    /// <summary>The connection string of the first account.</summary>
    public string ConnectionString => Account.ConnectionString;

    /// <summary>The clock, which all accounts share.</summary>
    public RowhouseClock Clock { get; }

    /// <summary>The last part of the server's log.</summary>
    public string Log => Text(log);

    /// <summary>The exit code, once the server has exited.</summary>
    public int? ExitCode => process.HasExited ? process.ExitCode : null;

    /// <summary>
    /// Returns the server that all tests of this process share. The first call starts it. If it cannot be started, every
    /// call fails with the reason.
    /// </summary>
    public static Task<RowhouseServer> SharedAsync() => Shared.Value;

    /// <summary>Starts a server that keeps everything in memory.</summary>
    /// <param name="options">More options for <c>rowhouse serve</c>, such as <c>--seed</c> and a folder.</param>
    /// <exception cref="InvalidOperationException">The server did not start. The message contains the reason.</exception>
    public static Task<RowhouseServer> StartAsync(params string[] options) =>
        StartAsync(["--in-memory", "--test-controls", .. options], "admin on ");

    /// <summary>
    /// Starts a server that keeps its data in a folder, where a later server finds it again. It has no test controls, so
    /// it has only its first account and the system clock.
    /// </summary>
    /// <param name="folder">The folder, which is created if it does not exist.</param>
    /// <param name="options">More options for <c>rowhouse serve</c>.</param>
    /// <exception cref="InvalidOperationException">The server did not start. The message contains the reason.</exception>
    public static Task<RowhouseServer> StartWithDataAsync(string folder, params string[] options) =>
        StartAsync(["--data", folder, .. options], "connection string: ");

    /// <summary>Creates an empty account.</summary>
    public async Task<RowhouseAccount> NewAccountAsync()
    {
        var made = await ControlAsync(HttpMethod.Post, "/test/accounts").ConfigureAwait(false);
        return new(this, made.GetProperty("connectionString").GetString()!);
    }

    /// <summary>Takes a snapshot of the content of all accounts.</summary>
    public async Task<RowhouseSnapshot> SnapshotAsync()
    {
        var made = await ControlAsync(HttpMethod.Post, "/test/snapshots").ConfigureAwait(false);
        return new(this, made.GetProperty("snapshot").GetString()!);
    }

    /// <summary>
    /// Returns to the initial content, including <c>--seed</c>, and to the system clock. Accounts created since then are
    /// deleted.
    /// </summary>
    public Task ResetAsync() => ControlAsync(HttpMethod.Post, "/test/reset");

    /// <summary>
    /// Sends a request to the test controls (docs/test-controls.md), such as PUT /test/clock, and returns the body of
    /// the response.
    /// </summary>
    /// <param name="method">The method.</param>
    /// <param name="path">The path.</param>
    /// <param name="body">The body, in JSON.</param>
    /// <exception cref="InvalidOperationException">The server refused the request or has stopped.</exception>
    public async Task<JsonElement> ControlAsync(HttpMethod method, string path, string body = "{}")
    {
        var (status, answer) = await SendAsync(method, path, body).ConfigureAwait(false);
        if (status >= HttpStatusCode.Ambiguous)
        {
            throw new InvalidOperationException($"{method} {path} was refused: {answer}");
        }
        return answer.Length == 0 ? default : JsonElement.Parse(answer);
    }

    /// <summary>Ends the server at once, as a crash does.</summary>
    public async Task KillAsync()
    {
        process.Kill();
        await process.WaitForExitAsync().ConfigureAwait(false);
        await logReader.ConfigureAwait(false);
    }

    /// <summary>Stops the server and waits until it has exited. Does nothing if it has already exited.</summary>
    public async ValueTask DisposeAsync()
    {
        process.StandardInput.Close();
        await process.WaitForExitAsync().ConfigureAwait(false);
        await logReader.ConfigureAwait(false);
    }

    /// <summary>Deletes an account or a snapshot, unless it was already deleted, for example by a reset.</summary>
    internal async Task DeleteAsync(string path)
    {
        var (status, answer) = await SendAsync(HttpMethod.Delete, path, "").ConfigureAwait(false);
        if (status is >= HttpStatusCode.Ambiguous and not HttpStatusCode.NotFound)
        {
            throw new InvalidOperationException($"{path} was not deleted: {answer}");
        }
    }

    /// <summary>Runs the command that imports a folder into an account.</summary>
    internal static async Task ImportAsync(string folder, string connectionString)
    {
        // The command keeps a progress file in its current folder.
        var state = Directory.CreateTempSubdirectory("rowhouse-");
        try
        {
            var command = Command("import", "--from", Path.GetFullPath(folder));
            command.WorkingDirectory = state.FullName;
            // The key is not passed on the command line, where other users of the machine could read it.
            command.Environment["ROWHOUSE_TO"] = connectionString;
            using var import = Start(command);
            import.StandardInput.Close();
            var errors = import.StandardError.ReadToEndAsync();
            await import.StandardOutput.ReadToEndAsync().ConfigureAwait(false);
            await import.WaitForExitAsync().ConfigureAwait(false);
            if (import.ExitCode != 0)
            {
                throw new InvalidOperationException($"{folder} was not imported: {await errors.ConfigureAwait(false)}");
            }
        }
        finally
        {
            state.Delete(recursive: true);
        }
    }

    private static async Task<RowhouseServer> StartAsync(string[] options, string lastLine)
    {
        var command = Command(["serve", "--stop-with-stdin", .. options]);
        // The port is set in a variable instead of an option, so that an option can override it.
        command.Environment["ROWHOUSE_LISTEN"] = "127.0.0.1:0";
        var process = Start(command);
        var log = new Queue<string>();
        var logReader = ReadLogAsync(process.StandardError, log);
        string? connectionString = null;
        string? lastValue = null;
        while (lastValue is null && await process.StandardOutput.ReadLineAsync().ConfigureAwait(false) is { } line)
        {
            connectionString = After("connection string: ", line) ?? connectionString;
            lastValue = After(lastLine, line);
        }
        // A full pipe would stop the server.
        _ = process.StandardOutput.BaseStream.CopyToAsync(Stream.Null);
        if (lastValue is not null && !connectionString!.Contains("AccountKey=<key>;"))
        {
            return new(process, log, logReader, connectionString, lastValue);
        }
        process.StandardInput.Close();
        await process.WaitForExitAsync().ConfigureAwait(false);
        await logReader.ConfigureAwait(false);
        throw new InvalidOperationException(lastValue is null
            ? $"rowhouse did not start: exit code {process.ExitCode}\n{Text(log)}"
            : "--accounts hides the keys: leave it out; NewAccountAsync creates accounts with their own keys");
    }

    private static Process Start(ProcessStartInfo command)
    {
        try
        {
            return Process.Start(command)!;
        }
        catch (Win32Exception error)
        {
            throw new InvalidOperationException($"{command.FileName} cannot be run: {error.Message}", error);
        }
    }

    private static ProcessStartInfo Command(params string[] arguments)
    {
        var command = new ProcessStartInfo(RowhouseProgram.Find(), arguments)
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
        return command;
    }

    private async Task<(HttpStatusCode Status, string Answer)> SendAsync(HttpMethod method, string path, string body)
    {
        if (controls is null)
        {
            throw new InvalidOperationException("a server with a data folder has no test controls");
        }
        using var request = new HttpRequestMessage(method, new Uri(controls, path))
        {
            Content = new StringContent(body, new MediaTypeHeaderValue("application/json")),
        };
        try
        {
            using var response = await Client.SendAsync(request).ConfigureAwait(false);
            return (response.StatusCode, await response.Content.ReadAsStringAsync().ConfigureAwait(false));
        }
        catch (HttpRequestException error)
        {
            throw new InvalidOperationException($"{method} {path} failed: {error.Message}\n{Log}", error);
        }
    }

    private static async Task ReadLogAsync(StreamReader lines, Queue<string> log)
    {
        while (await lines.ReadLineAsync().ConfigureAwait(false) is { } line)
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

    private static string Text(Queue<string> log)
    {
        lock (log)
        {
            return string.Join('\n', log);
        }
    }

    private static string? After(string beginning, string line) =>
        line.StartsWith(beginning, StringComparison.Ordinal) ? line[beginning.Length..] : null;
}

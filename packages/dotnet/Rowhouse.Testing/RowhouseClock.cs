using System.Globalization;
using System.Text.Json.Nodes;

namespace Rowhouse.Testing;

/// <summary>
/// The clock of a server, which determines Timestamps and the expiry of signatures. It is the system clock until it is
/// changed. Requests that are signed with the system clock are accepted even if the server's clock differs.
/// </summary>
public sealed class RowhouseClock
{
    private const string Path = "/test/clock";

    private readonly RowhouseServer server;

    internal RowhouseClock(RowhouseServer server) => this.server = server;

    /// <summary>Returns the server's time.</summary>
    public async Task<DateTimeOffset> NowAsync()
    {
        var clock = await server.ControlAsync(HttpMethod.Get, Path).ConfigureAwait(false);
        return clock.GetProperty("now").GetDateTimeOffset();
    }

    /// <summary>Sets the time and stops the clock there.</summary>
    /// <param name="time">The time, in the years 1601 to 9999.</param>
    public Task SetAsync(DateTimeOffset time) =>
        ChangeAsync(new() { ["now"] = time.UtcDateTime.ToString("O", CultureInfo.InvariantCulture) });

    /// <summary>Advances the clock.</summary>
    /// <param name="duration">The duration.</param>
    public Task AdvanceAsync(TimeSpan duration) => ChangeAsync(new() { ["advanceSeconds"] = duration.TotalSeconds });

    /// <summary>Stops the clock, which can still be set and advanced.</summary>
    public Task StopAsync() => ChangeAsync(new() { ["stopped"] = true });

    /// <summary>Restarts a stopped clock from its current time.</summary>
    public Task ResumeAsync() => ChangeAsync(new() { ["stopped"] = false });

    /// <summary>Returns to the system clock.</summary>
    public Task ResetAsync() => ChangeAsync(new() { ["system"] = true });

    private Task ChangeAsync(JsonObject change) => server.ControlAsync(HttpMethod.Put, Path, change.ToJsonString());
}

/// <summary>The content of all accounts on a server at one point in time. Disposing of it frees its memory.</summary>
public sealed class RowhouseSnapshot : IAsyncDisposable
{
    private readonly RowhouseServer server;
    private readonly string path;

    internal RowhouseSnapshot(RowhouseServer server, string name)
    {
        this.server = server;
        path = $"/test/snapshots/{name}";
    }

    /// <summary>Restores the content. Can be called more than once.</summary>
    public Task RestoreAsync() => server.ControlAsync(HttpMethod.Post, $"{path}/restore");

    /// <summary>Deletes the snapshot. Does nothing if it was already deleted.</summary>
    public async ValueTask DisposeAsync() => await server.DeleteAsync(path).ConfigureAwait(false);
}

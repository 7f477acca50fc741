namespace Rowhouse.Testing;

internal static class RowhouseProgram
{
    /// <summary>Returns the path of the program.</summary>
    public static string Find()
    {
        if (Environment.GetEnvironmentVariable("ROWHOUSE_BINARY") is { Length: > 0 } chosen)
        {
            return File.Exists(chosen)
                ? Path.GetFullPath(chosen)
                : throw new InvalidOperationException($"ROWHOUSE_BINARY names a file that does not exist: {chosen}");
        }
        // The runtime lists the folders of the native files in packages.
        if (FindIn(AppContext.GetData("NATIVE_DLL_SEARCH_DIRECTORIES") as string) is { } packaged)
        {
            return MakeExecutable(packaged);
        }
        return FindIn(Environment.GetEnvironmentVariable("PATH")) ?? throw new InvalidOperationException(
            "the program rowhouse is missing: install it, or set ROWHOUSE_BINARY to its path");
    }

    private static string? FindIn(string? folders) =>
        (folders ?? "").Split(Path.PathSeparator, StringSplitOptions.RemoveEmptyEntries)
            .SelectMany(folder => new[] { "rowhouse", "rowhouse.exe" }, Path.Combine).FirstOrDefault(File.Exists);

    /// <summary>Packages do not contain the permissions of their files.</summary>
    private static string MakeExecutable(string program)
    {
        if (!OperatingSystem.IsWindows())
        {
            var mode = File.GetUnixFileMode(program);
            if (!mode.HasFlag(UnixFileMode.UserExecute))
            {
                File.SetUnixFileMode(program, mode | UnixFileMode.UserExecute);
            }
        }
        return program;
    }
}

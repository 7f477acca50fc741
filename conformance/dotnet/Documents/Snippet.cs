using System.Diagnostics;
using System.Reflection;
using System.Text.RegularExpressions;
using Conformance.Support;
using Xunit;

namespace Conformance.Documents;

/// <summary>A fenced block of C# on a page: the text after the language, and the code.</summary>
internal sealed partial record Snippet(string Page, string Note, string Code)
{
    private static readonly string Root = Locate();

    /// <summary>Returns all snippets of the documentation.</summary>
    public static IEnumerable<Snippet> All() =>
        from page in Directory.EnumerateFiles(Path.Combine(Root, "docs"), "*.md", SearchOption.AllDirectories)
            .Append(Path.Combine(Root, "README.md"))
        from Match fence in Fence().Matches(File.ReadAllText(page))
        select new Snippet(Path.GetRelativePath(Root, page), fence.Groups["note"].Value, fence.Groups["code"].Value);

    public static Snippet Find(string page, string note) =>
        Assert.Single(All(), snippet => (snippet.Page, snippet.Note) == (page, note));

    /// <summary>Returns the snippet with a change that it needs to run beside other tests.</summary>
    public Snippet Replace(string text, string replacement)
    {
        Assert.Contains(text, Code);
        return this with { Code = Code.Replace(text, replacement) };
    }

    /// <summary>
    /// Compiles the snippet, together with other code, in a folder that also contains the packages of these tests, and
    /// returns a command that runs it. The compiler has the settings of a new project, and warnings are errors.
    /// </summary>
    public async Task<ProcessStartInfo> CompileAsync(TemporaryFolder folder, string otherCode = "")
    {
        string[] names = ["System", "System.Collections.Generic", "System.Linq", "System.Net.Http", "System.Threading.Tasks"];
        var usings = string.Join('\n', names.Select(name => $"global using {name};"));
        await File.WriteAllTextAsync(folder.File("usings.cs"), $"{usings}\n{otherCode}");
        await File.WriteAllTextAsync(folder.File("snippet.cs"), Code);
        var assemblies = ((string)AppContext.GetData("TRUSTED_PLATFORM_ASSEMBLIES")!).Split(Path.PathSeparator);
        var isOwn = (string path) => Path.GetFileNameWithoutExtension(path) == typeof(Snippet).Assembly.GetName().Name;
        string[] options =
        [
            "/nologo", "/target:exe", "/nullable:enable", "/warnaserror", "/nowarn:1701,1702", $"/out:{folder.File("snippet.dll")}",
            folder.File("snippet.cs"), folder.File("usings.cs"),
            .. assemblies.Where(path => !isOwn(path)).Select(path => $"/reference:{path}"),
        ];
        await File.WriteAllLinesAsync(folder.File("options"), options.Select(option => $"\"{option}\""));
        await RunAsync(Dotnet("exec", Metadata("Compiler"), "/noconfig", $"@{folder.File("options")}"));
        foreach (var entry in new DirectoryInfo(AppContext.BaseDirectory).EnumerateFileSystemInfos())
        {
            // The program runs with the settings and the list of packages of these tests.
            var name = entry.Name.EndsWith(".json") ? entry.Name.Replace("Conformance", "snippet") : entry.Name;
            File.CreateSymbolicLink(folder.File(name), entry.FullName);
        }
        return Dotnet("exec", folder.File("snippet.dll"));
    }

    /// <summary>Runs a program, which must succeed, and returns what it prints.</summary>
    public static async Task<string> RunAsync(ProcessStartInfo command)
    {
        using var process = Process.Start(command)!;
        var errors = process.StandardError.ReadToEndAsync();
        var printed = await process.StandardOutput.ReadToEndAsync();
        await process.WaitForExitAsync();
        Assert.True(process.ExitCode == 0, printed + await errors);
        return printed;
    }

    private static ProcessStartInfo Dotnet(params string[] arguments) =>
        new(Metadata("Host"), arguments) { RedirectStandardOutput = true, RedirectStandardError = true };

    private static string Locate()
    {
        var folder = new DirectoryInfo(AppContext.BaseDirectory);
        while (!File.Exists(Path.Combine(folder.FullName, "CHANGELOG.md")))
        {
            folder = folder.Parent!;
        }
        return folder.FullName;
    }

    private static string Metadata(string name) =>
        typeof(Snippet).Assembly.GetCustomAttributes<AssemblyMetadataAttribute>().Single(entry => entry.Key == name).Value!;

    [GeneratedRegex("^```csharp ?(?<note>[^\n]*)\n(?<code>.*?)^```", RegexOptions.Multiline | RegexOptions.Singleline)]
    private static partial Regex Fence();
}

using Azure;
using Xunit;

namespace Conformance.Support;

internal static class Refusal
{
    /// <summary>Runs an operation that the service must refuse with a status and an error code.</summary>
    public static async Task<RequestFailedException> AssertAsync(int status, string? code, Func<Task> operation)
    {
        var error = await Assert.ThrowsAnyAsync<RequestFailedException>(operation);
        Assert.Equal((status, code), (error.Status, error.ErrorCode));
        return error;
    }
}

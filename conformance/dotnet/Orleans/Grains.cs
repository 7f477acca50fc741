namespace Conformance.Orleans;

public interface ICounterGrain : IGrainWithStringKey
{
    /// <summary>Adds one, and returns when the new value is stored.</summary>
    Task<int> IncreaseAsync();

    Task<int> ReadAsync();

    /// <summary>Removes the grain from memory, so that the next call reads what is stored.</summary>
    Task ForgetAsync();

    Task RemindAsync();

    /// <summary>Returns how often a reminder reached this activation of the grain.</summary>
    Task<int> ReminderCountAsync();
}

[GenerateSerializer]
public sealed class Counter
{
    [Id(0)]
    public int Value { get; set; }
}

internal sealed class CounterGrain([PersistentState("counter")] IPersistentState<Counter> counter)
    : Grain, ICounterGrain, IRemindable
{
    private int reminders;

    public async Task<int> IncreaseAsync()
    {
        counter.State.Value++;
        try
        {
            await counter.WriteStateAsync();
        }
        catch (Exception)
        {
            // The write may have been applied. The next call reads what is stored.
            DeactivateOnIdle();
            throw;
        }
        return counter.State.Value;
    }

    public Task<int> ReadAsync() => Task.FromResult(counter.State.Value);

    public Task ForgetAsync()
    {
        DeactivateOnIdle();
        return Task.CompletedTask;
    }

    public Task RemindAsync() =>
        this.RegisterOrUpdateReminder("wake", dueTime: TimeSpan.FromSeconds(1), period: TimeSpan.FromSeconds(1));

    public Task<int> ReminderCountAsync() => Task.FromResult(reminders);

    public Task ReceiveReminder(string reminderName, TickStatus status)
    {
        reminders++;
        return Task.CompletedTask;
    }
}

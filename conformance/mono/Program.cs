using System;
using System.Collections.Generic;
using System.Linq;
using System.Net;

namespace Conformance.Mono
{
    // A step: a name, and what it does.
    class Step
    {
        internal readonly string Name;
        internal readonly Action Run;

        internal Step(string name, Action run)
        {
            Name = name;
            Run = run;
        }
    }

    static class Program
    {
        static IEnumerable<Step> AllSteps()
        {
            return TableSteps.All().Concat(QuerySteps.All()).Concat(ChangeSteps.All()).Concat(TableSteps.Last())
                .Concat(UpsertSteps.All());
        }

        static int Main()
        {
            // What the paper of 2009 recommends for small requests.
            ServicePointManager.Expect100Continue = false;
            ServicePointManager.UseNagleAlgorithm = false;
            ServicePointManager.DefaultConnectionLimit = 8;
            // A proxy of the machine has nothing to do with the account.
            WebRequest.DefaultWebProxy = null;

            int passed = 0, failed = 0;
            foreach (Step step in AllSteps())
            {
                try
                {
                    step.Run();
                    passed++;
                    Console.WriteLine("ok      " + step.Name);
                }
                catch (Exception failure)
                {
                    failed++;
                    Console.WriteLine("FAILED  " + step.Name + ": " + (failure is CheckFailed ? failure.Message : failure.ToString()));
                }
            }
            Console.WriteLine("{0} passed, {1} failed", passed, failed);
            return failed == 0 ? 0 : 1;
        }
    }
}

using System;
using System.Data.Services.Client;
using System.Globalization;
using System.Net;
using System.Security.Cryptography;
using System.Text;

namespace Conformance.Mono
{
    // The account under test. The defaults are the public development account, so that a local server needs no settings.
    static class Target
    {
        const string DevelopmentKey =
            "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

        internal static readonly string Account = Setting("TABLES_ACCOUNT", "devstoreaccount1");
        internal static readonly string Key = Setting("TABLES_KEY", DevelopmentKey);
        internal static readonly Uri Endpoint =
            new Uri(Setting("TABLES_ENDPOINT", "http://127.0.0.1:10002/" + Account).TrimEnd('/'));

        static string Setting(string name, string otherwise)
        {
            string value = Environment.GetEnvironmentVariable(name);
            return string.IsNullOrEmpty(value) ? otherwise : value;
        }

        internal static string UniqueName(string prefix)
        {
            return prefix + Guid.NewGuid().ToString("N");
        }
    }

    // A context that signs its requests with Shared Key Lite, in the event that precedes each request.
    class Context : DataServiceContext
    {
        readonly string version;
        readonly string key;

        // The headers of the last request, for steps that check what the library sent.
        internal WebHeaderCollection Sent { get; private set; }

        internal Uri SentTo { get; private set; }

        internal string SentMethod { get; private set; }

        internal Context(string version, string key = null) : base(Target.Endpoint)
        {
            this.version = version;
            this.key = key ?? Target.Key;
            SendingRequest += Sign;
        }

        void Sign(object sender, SendingRequestEventArgs arguments)
        {
            var request = (HttpWebRequest)arguments.Request;
            string date = DateTime.UtcNow.ToString("R", CultureInfo.InvariantCulture);
            request.Headers["x-ms-date"] = date;
            request.Headers["x-ms-version"] = version;
            string signed = date + "\n/" + Target.Account + request.RequestUri.AbsolutePath;
            using (var hash = new HMACSHA256(Convert.FromBase64String(key)))
            {
                string signature = Convert.ToBase64String(hash.ComputeHash(Encoding.UTF8.GetBytes(signed)));
                request.Headers["Authorization"] = "SharedKeyLite " + Target.Account + ":" + signature;
            }
            Sent = request.Headers;
            SentTo = request.RequestUri;
            SentMethod = request.Method;
        }
    }
}

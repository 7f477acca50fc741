using System.Net;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using System.Text.Json;
using Azure.Core;

namespace Conformance.Support;

/// <summary>An issuer of bearer tokens on this machine, with a new key.</summary>
internal sealed class Issuer : IDisposable
{
    private readonly RSA key = RSA.Create(2048);
    private readonly ReservedPort port = new();
    private readonly HttpListener listener = new();

    public Issuer()
    {
        listener.Prefixes.Add($"{Name}/");
        listener.Start();
        _ = ServeAsync();
    }

    public string Name => $"http://127.0.0.1:{port.Number}";

    /// <summary>Returns a credential of a principal. The changes replace claims of its tokens.</summary>
    public TokenCredential Credential(string principal, params (string Claim, object Value)[] changes)
    {
        var now = DateTimeOffset.UtcNow.ToUnixTimeSeconds();
        var claims = new Dictionary<string, object>
        {
            ["iss"] = Name,
            ["aud"] = "https://storage.azure.com",
            ["nbf"] = now,
            ["exp"] = now + 3600,
            ["oid"] = principal,
            ["sub"] = principal,
        };
        foreach (var (claim, value) in changes)
        {
            claims[claim] = value;
        }
        var header = new Dictionary<string, object> { ["typ"] = "JWT", ["alg"] = "RS256", ["kid"] = "k1" };
        var text = $"{Encode(header)}.{Encode(claims)}";
        var signature = key.SignData(Encoding.ASCII.GetBytes(text), HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1);
        return new FixedToken($"{text}.{Base64Url(signature)}");
    }

    public void Dispose()
    {
        listener.Close();
        port.Dispose();
        key.Dispose();
    }

    private async Task ServeAsync()
    {
        while (listener.IsListening)
        {
            try
            {
                var context = await listener.GetContextAsync();
                var isDiscovery = context.Request.Url!.AbsolutePath == "/.well-known/openid-configuration";
                object document = isDiscovery ? new { issuer = Name, jwks_uri = $"{Name}/keys" } : KeySet();
                context.Response.Close(JsonSerializer.SerializeToUtf8Bytes(document), willBlock: false);
            }
            catch (Exception error) when (error is HttpListenerException or ObjectDisposedException)
            {
                // The issuer has been stopped.
            }
        }
    }

    private object KeySet()
    {
        var numbers = key.ExportParameters(includePrivateParameters: false);
        var entry = new { kty = "RSA", use = "sig", kid = "k1", n = Base64Url(numbers.Modulus!), e = Base64Url(numbers.Exponent!) };
        return new { keys = new[] { entry } };
    }

    private static string Encode(Dictionary<string, object> part) => Base64Url(JsonSerializer.SerializeToUtf8Bytes(part));

    private static string Base64Url(byte[] bytes) => System.Buffers.Text.Base64Url.EncodeToString(bytes);

    private sealed class FixedToken(string token) : TokenCredential
    {
        public override AccessToken GetToken(TokenRequestContext context, CancellationToken stop) =>
            new(token, DateTimeOffset.UtcNow.AddHours(1));

        public override ValueTask<AccessToken> GetTokenAsync(TokenRequestContext context, CancellationToken stop) =>
            new(GetToken(context, stop));
    }
}

/// <summary>A new self-signed certificate for 127.0.0.1, as files for a server, and a client that trusts only it.</summary>
internal sealed class Certificate
{
    private readonly X509Certificate2 certificate;

    public Certificate(TemporaryFolder folder)
    {
        using var key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
        var request = new CertificateRequest("CN=127.0.0.1", key, HashAlgorithmName.SHA256);
        var names = new SubjectAlternativeNameBuilder();
        names.AddIpAddress(IPAddress.Loopback);
        request.CertificateExtensions.Add(names.Build());
        request.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, true, 0, true));
        var now = DateTimeOffset.UtcNow;
        certificate = request.CreateSelfSigned(now.AddDays(-1), now.AddDays(1));
        CertificateFile = folder.File("certificate.pem");
        KeyFile = folder.File("key.pem");
        File.WriteAllText(CertificateFile, certificate.ExportCertificatePem());
        File.WriteAllText(KeyFile, key.ExportPkcs8PrivateKeyPem());
    }

    public string CertificateFile { get; }

    public string KeyFile { get; }

    public HttpClient NewClient()
    {
        var policy = new X509ChainPolicy
        {
            TrustMode = X509ChainTrustMode.CustomRootTrust,
            RevocationMode = X509RevocationMode.NoCheck,
        };
        policy.CustomTrustStore.Add(certificate);
        return new HttpClient(new SocketsHttpHandler { SslOptions = { CertificateChainPolicy = policy } });
    }
}

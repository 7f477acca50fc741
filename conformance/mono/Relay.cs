using System;
using System.Collections.Generic;
using System.IO;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Threading;

namespace Conformance.Mono
{
    // A proxy that adds `Content-Length: 0` to responses with status 204 that lack it, and changes nothing else.
    ///
    // Mono closes a connection when it receives a 204 without this header. If it has not yet noticed that the whole
    // request was sent, it then reports an error although the request succeeded. No setting of a request or of a
    // `ServicePoint` avoids this.
    class Relay
    {
        readonly TcpListener listener = new TcpListener(IPAddress.Loopback, 0);
        readonly Uri server;

        // The URL of the account through the proxy.
        internal readonly Uri Endpoint;

        internal Relay(Uri server)
        {
            this.server = server;
            listener.Start();
            int port = ((IPEndPoint)listener.LocalEndpoint).Port;
            Endpoint = new UriBuilder(server) { Host = "127.0.0.1", Port = port }.Uri;
            Start(Accept);
        }

        static void Start(ThreadStart work)
        {
            new Thread(work) { IsBackground = true }.Start();
        }

        void Accept()
        {
            for (;;)
            {
                TcpClient client = listener.AcceptTcpClient();
                var upstream = new TcpClient(server.Host, server.Port);
                client.NoDelay = upstream.NoDelay = true;
                new Connection(client, upstream);
            }
        }

        class Connection
        {
            // Whether the next bytes of the server are the beginning of a response. A client waits for a response before
            // it sends another request.
            volatile bool isHead;

            internal Connection(TcpClient client, TcpClient server)
            {
                Start(() => Copy(client, server, Request));
                Start(() => Copy(server, client, Response));
            }

            void Copy(TcpClient from, TcpClient to, Action<byte[], int, Stream> pass)
            {
                var buffer = new byte[64 * 1024];
                try
                {
                    int length;
                    while ((length = from.GetStream().Read(buffer, 0, buffer.Length)) > 0)
                    {
                        pass(buffer, length, to.GetStream());
                    }
                }
                catch (Exception failure) when (failure is IOException || failure is InvalidOperationException)
                {
                    // One of the two is gone, so the other one must go too.
                }
                from.Close();
                to.Close();
            }

            void Request(byte[] buffer, int length, Stream to)
            {
                isHead = true;
                to.Write(buffer, 0, length);
            }

            readonly List<byte> head = new List<byte>();

            void Response(byte[] buffer, int length, Stream to)
            {
                if (!isHead)
                {
                    to.Write(buffer, 0, length);
                    return;
                }
                for (int i = 0; i < length; i++)
                {
                    head.Add(buffer[i]);
                }
                string text = Encoding.GetEncoding("iso-8859-1").GetString(head.ToArray());
                if (!text.Contains("\r\n\r\n"))
                {
                    return;
                }
                isHead = false;
                head.Clear();
                int end = text.IndexOf("\r\n", StringComparison.Ordinal) + 2;
                bool hasLength = text.IndexOf("\r\ncontent-length:", StringComparison.OrdinalIgnoreCase) >= 0;
                if (text.StartsWith("HTTP/1.1 204 ", StringComparison.Ordinal) && !hasLength)
                {
                    text = text.Insert(end, "Content-Length: 0\r\n");
                }
                byte[] changed = Encoding.GetEncoding("iso-8859-1").GetBytes(text);
                to.Write(changed, 0, changed.Length);
            }
        }
    }
}

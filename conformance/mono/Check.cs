using System;
using System.Collections.Generic;
using System.Data.Services.Client;
using System.Linq;
using System.Xml.Linq;

namespace Conformance.Mono
{
    class CheckFailed : Exception
    {
        internal CheckFailed(string message) : base(message)
        {
        }
    }

    static class Check
    {
        const string Metadata = "http://schemas.microsoft.com/ado/2007/08/dataservices/metadata";

        internal static void True(bool holds, string what)
        {
            if (!holds)
            {
                throw new CheckFailed(what);
            }
        }

        internal static void Equal<T>(T expected, T actual, string what)
        {
            True(EqualityComparer<T>.Default.Equals(expected, actual),
                string.Format("{0}: expected {1}, found {2}", what, Shown(expected), Shown(actual)));
        }

        internal static void Sequence<T>(IEnumerable<T> expected, IEnumerable<T> actual, string what)
        {
            List<T> found = actual.ToList();
            True(expected.SequenceEqual(found), string.Format("{0}: expected {1}, found {2}", what, Shown(expected), Shown(found)));
        }

        static string Shown<T>(IEnumerable<T> values)
        {
            List<T> all = values.ToList();
            string first = string.Join(", ", all.Take(8));
            return all.Count > 8 ? first + ", … (" + all.Count + ")" : "[" + first + "]";
        }

        static string Shown(object value)
        {
            return value == null ? "null" : "'" + value + "'";
        }

        // Checks that a request fails with this status and this error code in its body.
        internal static void Fails(int status, string code, Action request)
        {
            DataServiceClientException error = null;
            try
            {
                request();
            }
            catch (InvalidOperationException failure)
            {
                error = Cause(failure);
                if (error == null)
                {
                    throw;
                }
            }
            True(error != null, "the request succeeded instead of failing with " + code);
            XElement body;
            try
            {
                body = XElement.Parse(error.Message);
            }
            catch (System.Xml.XmlException)
            {
                throw new CheckFailed("the body of the error is not XML: " + error.Message);
            }
            Equal(code, (string)body.Element(XName.Get("code", Metadata)), "the error code");
            Equal(status, error.StatusCode, "the status of " + code);
        }

        static DataServiceClientException Cause(Exception failure)
        {
            while (failure != null && !(failure is DataServiceClientException))
            {
                failure = failure.InnerException;
            }
            return (DataServiceClientException)failure;
        }
    }
}

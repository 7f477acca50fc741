// Prints the URL at which a program listens.

export function listen(server) {
  const listener = server.listen(0, "127.0.0.1", () => {
    console.log(`listening on http://127.0.0.1:${listener.address().port}`);
  });
}

// A server for Go tests; docs/testing-with-rowhouse.md shows how to use it. The module is not published yet, and no
// module below `.test`, a reserved domain, can be. Without a replace directive, the go command fails and downloads
// nothing.
module rowhouse.test/rowhousetest

go 1.23.0

// A server for Go tests; docs/testing-with-rowhouse.md shows how to use it. Nothing is published yet, and nobody can publish a
// module below `.test`, a reserved domain: without a replace directive the go command fails and fetches nothing.
module rowhouse.test/rowhousetest

go 1.23.0

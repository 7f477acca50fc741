// An independent judge of histories. Run by cargo xtask test.
module porcupine-judge

go 1.23.0

require github.com/anishathalye/porcupine v1.0.3

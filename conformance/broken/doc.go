// Package broken holds lease tables and streams that are each wrong in one way, and say which rule of package conformance must find it. Its test
// runs the suite on all of them: it shows that the suite can fail, and what a failure looks like.
//
// Each is an adapter of ours in memory behind a wrapper that does the one wrong thing; [Sound] and [SoundSource] are the same without it, and
// pass.
package broken

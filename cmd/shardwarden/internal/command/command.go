// Package command is what the subcommands of the program share: how flags are declared, how help looks, and which mistakes exit with 2.
package command

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Exit statuses.
const (
	OK     = 0
	Failed = 1
	Misuse = 2 // the command line makes no sense
)

// ErrHelp: help was asked for and printed.
var ErrHelp = pflag.ErrHelp

// UsageError is a command line that makes no sense.
type UsageError struct {
	Command string
	Err     error
}

func (e *UsageError) Error() string {
	return fmt.Sprintf("%v\nSee: %s --help", e.Err, e.Command)
}

func (e *UsageError) Unwrap() error { return e.Err }

// ExitError ends the program with a status of its own; Err may be nil, then nothing is said.
type ExitError struct {
	Status int
	Err    error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Status)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Report says err on w, in words for a person, and returns the exit status.
func Report(w io.Writer, err error) int {
	if err == nil || errors.Is(err, ErrHelp) {
		return OK
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		if exit.Err != nil {
			fmt.Fprintf(w, "shardwarden: %v\n", exit.Err)
		}
		return exit.Status
	}
	fmt.Fprintf(w, "shardwarden: %v\n", err)
	if _, ok := errors.AsType[*UsageError](err); ok {
		return Misuse
	}
	return Failed
}

// Flags are the flags of one command.
type Flags struct {
	*pflag.FlagSet
	name     string
	checks   []func() error
	required []string
	operands []operand
}

// operand is an argument that is no flag.
type operand struct {
	name string
	to   *string
}

// NewFlags declares a command. text is what --help says above the flags, examples what it says below.
func NewFlags(name, text, examples string, stdout io.Writer) *Flags {
	set := pflag.NewFlagSet(name, pflag.ContinueOnError)
	set.SortFlags = false
	set.SetOutput(stdout)
	f := &Flags{FlagSet: set, name: name}
	set.Usage = func() {
		var usage strings.Builder
		usage.WriteString(name)
		for _, o := range f.operands {
			usage.WriteString(" " + o.name)
		}
		fmt.Fprintf(stdout, "%s\n\nUsage: %s [flags]\n\n%s", strings.TrimSpace(text), usage.String(), set.FlagUsagesWrapped(110))
		if examples != "" {
			fmt.Fprintf(stdout, "\nExamples:\n%s\n", strings.TrimRight(examples, "\n"))
		}
	}
	return f
}

// Operand declares an argument that is no flag, in the order they are given. It may be left out: a [Flags.Check] says where it must not.
func (f *Flags) Operand(name string, to *string) { f.operands = append(f.operands, operand{name, to}) }

// Require names flags that must be given, and not empty.
func (f *Flags) Require(names ...string) { f.required = append(f.required, names...) }

// Check adds a rule. It is asked after parsing and names the flag and its value.
func (f *Flags) Check(rule func() error) { f.checks = append(f.checks, rule) }

// AtLeast demands that an int flag is not below low.
func (f *Flags) AtLeast(name string, value *int, low int) {
	f.Check(func() error {
		if *value < low {
			return fmt.Errorf("--%s is %d: must be at least %d", name, *value, low)
		}
		return nil
	})
}

// Positive demands that a duration flag, where given, is above zero.
func (f *Flags) Positive(name string, value *time.Duration) {
	f.Check(func() error {
		if f.Changed(name) && *value <= 0 {
			return fmt.Errorf("--%s is %v: must be above zero, such as 5s", name, *value)
		}
		return nil
	})
}

// Bad makes a usage error of this command.
func (f *Flags) Bad(format string, args ...any) error {
	return &UsageError{f.name, fmt.Errorf(format, args...)}
}

// Parse reads the arguments. ErrHelp after --help; a *UsageError, with every mistake, where they make no sense.
func (f *Flags) Parse(args []string) error {
	if err := f.FlagSet.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return ErrHelp
		}
		return &UsageError{f.name, err}
	}
	var errs []error
	for i, arg := range f.Args() {
		switch {
		case i < len(f.operands):
			*f.operands[i].to = arg
		case len(f.operands) == 0:
			errs = append(errs, fmt.Errorf("unexpected argument %q: everything is said with flags", arg))
		default:
			errs = append(errs, fmt.Errorf("unexpected argument %q behind %s", arg, f.Arg(i-1)))
		}
	}
	for _, name := range f.required {
		if f.Lookup(name).Value.String() == "" {
			errs = append(errs, fmt.Errorf("--%s is missing: it must be given", name))
		}
	}
	for _, rule := range f.checks {
		if err := rule(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return &UsageError{f.name, errors.Join(errs...)}
	}
	return nil
}

package doctor

// Level is how bad a finding is.
type Level string

// Levels.
const (
	OK   Level = "ok"
	Warn Level = "warn" // it works, or may be meant so
	Fail Level = "fail" // it does not work, or loses records or hours
)

// Finding is what a check found, and what to do about it.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	What  string `json:"what"`
	Do    string `json:"do,omitempty"`
}

// Report is the JSON form; docs/leases.md documents it.
type Report struct {
	Stream   string    `json:"stream"`
	Table    string    `json:"table"`
	Findings []Finding `json:"findings"`
	Warnings int       `json:"warnings"`
	Failures int       `json:"failures"`
}

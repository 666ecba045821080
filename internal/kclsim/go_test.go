package kclsim

// goWorker is a worker of this library.
type goWorker struct {
	id   string
	gone bool
}

func (g *goWorker) die()           {}
func (g *goWorker) told() []string { return nil }
func (f *fleet) stopGo(id string)  {}

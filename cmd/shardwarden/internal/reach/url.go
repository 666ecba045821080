package reach

import (
	"fmt"
	"net/url"
)

// checkURL refuses what is no address of a service. Empty is none.
func checkURL(flag, value string) error {
	if value == "" {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("--%s is %q: must be a URL such as http://127.0.0.1:4567", flag, value)
	}
	return nil
}

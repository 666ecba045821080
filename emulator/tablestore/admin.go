package tablestore

import (
	"net/http"
)

// AdminPath is where the emulator's own calls begin.
const AdminPath = "/emulator/"

func (s *Server) serveAdmin(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

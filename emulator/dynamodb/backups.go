package dynamodb

import "time"

// recovery is the point-in-time recovery setting of a table. Nothing is
// backed up; only the setting is kept, since lease tables do no more.
type recovery struct {
	enabled bool
	days    int
	since   time.Time
}

// defaultRecoveryDays is the service's default and maximum.
const defaultRecoveryDays = 35

type updateContinuousBackups struct {
	TableName                        tableName
	PointInTimeRecoverySpecification *struct {
		PointInTimeRecoveryEnabled *bool
		RecoveryPeriodInDays       *int
	}
}

func (r *updateContinuousBackups) touches() []touch { return []touch{{table: string(r.TableName)}} }

func (r *updateContinuousBackups) check() error {
	if err := r.TableName.check(); err != nil {
		return err
	}
	p := r.PointInTimeRecoverySpecification
	if err := required("PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled", p != nil && p.PointInTimeRecoveryEnabled != nil); err != nil {
		return err
	}
	if d := p.RecoveryPeriodInDays; d != nil && (*d < 1 || *d > defaultRecoveryDays) {
		return constraint("'"+itoa(*d)+"'", "pointInTimeRecoverySpecification.recoveryPeriodInDays", "Member must have value between 1 and 35")
	}
	return nil
}

func (r *updateContinuousBackups) run(s *Server) (obj, error) {
	return s.backups(r.TableName, func(t *table, now time.Time) {
		p := r.PointInTimeRecoverySpecification
		was := t.pitr
		t.pitr = recovery{enabled: *p.PointInTimeRecoveryEnabled, days: defaultRecoveryDays, since: now}
		if was.enabled {
			t.pitr.since, t.pitr.days = was.since, was.days
		}
		if p.RecoveryPeriodInDays != nil {
			t.pitr.days = *p.RecoveryPeriodInDays
		}
	})
}

type describeContinuousBackups struct{ TableName tableName }

func (r *describeContinuousBackups) touches() []touch { return []touch{{table: string(r.TableName)}} }
func (r *describeContinuousBackups) check() error     { return r.TableName.check() }

func (r *describeContinuousBackups) run(s *Server) (obj, error) {
	return s.backups(r.TableName, func(*table, time.Time) {})
}

// backups runs f on a table and describes its recovery setting.
func (s *Server) backups(name tableName, f func(*table, time.Time)) (obj, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	t := s.tables[string(name)]
	if t == nil || now.Before(t.activeAt) {
		return nil, fail("TableNotFoundException", "Table not found: %s", name)
	}
	f(t, now)
	d := obj{{"PointInTimeRecoveryStatus", "DISABLED"}}
	if t.pitr.enabled {
		d = obj{{"PointInTimeRecoveryStatus", "ENABLED"}, {"RecoveryPeriodInDays", t.pitr.days},
			{"EarliestRestorableDateTime", t.pitr.since}, {"LatestRestorableDateTime", now}}
	}
	return obj{{"ContinuousBackupsDescription", obj{{"ContinuousBackupsStatus", "ENABLED"}, {"PointInTimeRecoveryDescription", d}}}}, nil
}

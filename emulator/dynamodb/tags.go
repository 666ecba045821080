package dynamodb

import (
	"slices"
	"time"
)

// maxTags is the service's limit on the tags of one table.
const maxTags = 50

func checkTags(tags []tag) error {
	for i, t := range tags {
		if t.Key == "" || len(t.Key) > 128 || len(t.Value) > 256 {
			return constraint("'"+t.Key+"'", "tags.member.key", "Member must have length between 1 and 128, its value at most 256")
		}
		if slices.ContainsFunc(tags[:i], func(o tag) bool { return o.Key == t.Key }) {
			return badValue("Duplicate tag key: %s", t.Key)
		}
	}
	if len(tags) > maxTags {
		return fail("LimitExceededException", "The number of tags exceeds the limit of %d", maxTags)
	}
	return nil
}

// tagged runs f on the table an ARN names.
func (s *Server) tagged(arn string, f func(*table) (obj, error)) (obj, error) {
	name, err := s.tableFromARN(arn)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(name, time.Now())
	if err != nil {
		return nil, fail("ResourceNotFoundException", "Requested resource not found: ResourcArn: %s not found", arn)
	}
	return f(t)
}

type tagResource struct {
	ResourceArn string
	Tags        []tag
}

func (r *tagResource) touches() []touch { return touchARN(r.ResourceArn) }

func (r *tagResource) check() error {
	if err := required("ResourceArn", r.ResourceArn != ""); err != nil {
		return err
	}
	if len(r.Tags) == 0 {
		return invalid("Atleast one Tag needs to be provided as Input.")
	}
	return checkTags(r.Tags)
}

func (r *tagResource) run(s *Server) (obj, error) {
	return s.tagged(r.ResourceArn, func(t *table) (obj, error) {
		tags := slices.Clone(t.tags)
		for _, n := range r.Tags {
			if i := slices.IndexFunc(tags, func(o tag) bool { return o.Key == n.Key }); i >= 0 {
				tags[i] = n
			} else {
				tags = append(tags, n)
			}
		}
		if err := checkTags(tags); err != nil {
			return nil, err
		}
		t.tags = tags
		return obj{}, nil
	})
}

type untagResource struct {
	ResourceArn string
	TagKeys     []string
}

func (r *untagResource) touches() []touch { return touchARN(r.ResourceArn) }

func (r *untagResource) check() error {
	if err := required("ResourceArn", r.ResourceArn != ""); err != nil {
		return err
	}
	return required("TagKeys", len(r.TagKeys) > 0)
}

func (r *untagResource) run(s *Server) (obj, error) {
	return s.tagged(r.ResourceArn, func(t *table) (obj, error) {
		t.tags = slices.DeleteFunc(slices.Clone(t.tags), func(o tag) bool { return slices.Contains(r.TagKeys, o.Key) })
		return obj{}, nil
	})
}

type listTagsOfResource struct {
	ResourceArn string
	NextToken   string
}

func (r *listTagsOfResource) touches() []touch { return touchARN(r.ResourceArn) }

func (r *listTagsOfResource) check() error {
	if r.NextToken != "" {
		// All tags fit one answer, so no token was ever given out.
		return invalid("NextToken is not valid: %s", r.NextToken)
	}
	return required("ResourceArn", r.ResourceArn != "")
}

func (r *listTagsOfResource) run(s *Server) (obj, error) {
	return s.tagged(r.ResourceArn, func(t *table) (obj, error) {
		tags := []obj{}
		for _, o := range t.tags {
			tags = append(tags, obj{{"Key", o.Key}, {"Value", o.Value}})
		}
		return obj{{"Tags", tags}}, nil
	})
}

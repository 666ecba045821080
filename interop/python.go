package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
)

// boto3Scenario runs sdk/boto3_check.py: every call that a consumer makes, by an SDK that shares no code with Go's.
func boto3Scenario(ctx context.Context, r *runner) (string, error) {
	venv := filepath.Join(r.work, "venvboto3")
	python := filepath.Join(venv, "bin", "python")
	err := r.once("boto3", func() error {
		if err := r.have("python3"); err != nil {
			return err
		}
		done := filepath.Join(venv, "installed")
		if _, err := os.Stat(done); err == nil {
			return nil
		}
		if err := second(r.command(ctx, r.root, nil, "python3", "-m", "venv", venv)); err != nil {
			return err
		}
		err := second(r.command(ctx, r.root, nil, filepath.Join(venv, "bin", "pip"), "install", "-q", "-r", filepath.Join(r.root, "interop", "sdk", "requirements.txt")))
		if err != nil {
			return noNetwork(err)
		}
		return os.WriteFile(done, nil, 0o644)
	})
	if err != nil {
		return "", err
	}
	url, err := r.ours(ctx)
	if err != nil {
		return "", err
	}
	out, err := r.command(ctx, r.out, []string{"AWS_ACCESS_KEY_ID=" + account, "AWS_SECRET_ACCESS_KEY=secret", "AWS_EC2_METADATA_DISABLED=true"},
		python, filepath.Join(r.root, "interop", "sdk", "boto3_check.py"), url, url)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1], nil
}

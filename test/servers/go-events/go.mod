module tenure.test/go-events

go 1.24.0

"""The review steps of a workflow: what `tandem gate plan|context|task|wave|verification` propose, wait for and say."""
